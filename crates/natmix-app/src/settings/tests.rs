//! Settings in layers, in files of either version, and in files damaged at random with a fixed seed; the fuzz target
//! `read_settings` does the last without a time limit.

use super::*;
use natmix::estimate::Trick;
use natmix_nets::train::Optimiser;

const FILES: [&str; 3] = [
    "model = \"logistic\"\ndata = \"a.csv\"\noutcome = \"y\"\ncategorical = [\"b\", \"c\"]\nmissing = \"drop\"\nonly = [\"a\"]\nwithout = [\"e\"]\nreference = [\"b=x\"]\nstandardize = true\nprior_sd = 2.5\nseed = 3\n",
    "model = \"density\"\nspec = \"a.json\"\nmethod = \"von\"\ncomponents = \"5\"\ncovariance = \"full\"\nrule = \"plain\"\nrate = 0.1\n",
    "model = \"linear\"\nnoise_sd = 0.5\nminibatch = 100\ntolerance = 0.01\nmax_evals = 1000\ninit_sd = 2.0\nthreads = 2\nstream = true\ntrace_frames = 60\n",
];
const PIECES: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "nan",
    "inf",
    "true",
    "[]",
    "\"\"",
    "{}",
    "99999999999999999999",
    "rate",
    "=",
    "\n",
    "\"",
    "#",
    "[x]",
];

#[test]
fn validation_is_a_share_or_a_file() {
    use network::HeldOut;
    let read = |text: &str| toml::from_str::<Settings>(&format!("[mlp]\nvalidation = {text}\n"));
    let of = |text: &str| read(text).unwrap().network.validation.unwrap();
    assert_eq!(of("0.2"), HeldOut::Share(0.2));
    assert_eq!(of("\"0.2\""), HeldOut::Share(0.2));
    assert_eq!(of("\"held.csv\""), HeldOut::File("held.csv".into()));
    assert_eq!(natmix::config::parse::<HeldOut>("0.2"), Ok(HeldOut::Share(0.2)));
    let message = read("true").unwrap_err().to_string();
    assert!(message.contains("must be a file, or a share of the rows"), "{message}");
    let written = toml::to_string(&read("\"held.csv\"").unwrap()).unwrap();
    assert!(written.contains("validation = \"held.csv\""), "{written}");
}

#[test]
fn damaged_settings_are_refused_or_survive_a_round_trip() {
    let mut state = 11u64;
    let mut below = |end: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % end.max(1)
    };
    let (mut accepted, mut refused) = (0, 0);
    for original in FILES {
        assert!(toml::from_str::<Settings>(original).is_ok(), "{original}");
        for _ in 0..2000 {
            let mut words: Vec<&str> = original.split_inclusive(&[' ', '\n', ','][..]).collect();
            for _ in 0..=below(2) {
                let at = below(words.len());
                match below(3) {
                    0 => drop(words.remove(at)),
                    1 => words.insert(at, PIECES[below(PIECES.len())]),
                    _ => words[at] = PIECES[below(PIECES.len())],
                }
            }
            let Ok(settings) = toml::from_str::<Settings>(&words.concat()) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            let written = toml::to_string_pretty(&settings).unwrap();
            let mut again: Settings = toml::from_str(&written).unwrap();
            // Settings that do not affect results are not written, the seed always is; NaN does not equal itself.
            again.engine.seed = settings.engine.seed;
            again.engine.threads = settings.engine.threads;
            (again.fit.out, again.fit.stream) = (settings.fit.out.clone(), settings.fit.stream);
            again.fit.trace_frames = settings.fit.trace_frames;
            assert!(again == settings || written.contains("nan"), "{written}");
            let _ = settings.check();
            let _ = settings.config(&About { dim: 3, rows: Some(10), ..About::default() });
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused: weak damage");
}

/// As version 0.1 wrote them, with its defaults.
const OLD: &str = "model = \"mlp\"\ndata = \"a.csv\"\noutcome = \"y\"\ncategorical = []\nstandardize = true\nintercept = true\n\
prior_sd = 2.5\nmethod = \"auto\"\ncomponents = \"2\"\ncovariance = \"auto\"\ndraws = \"auto\"\nentropy_trick = \"fitted\"\n\
tolerance = 0.01\nseed = 1\n\n[mlp]\nhidden = [16]\nbatch = 32\nmomentum = 0.8\ncurvature_rate = 0.02\ndamping = 0.1\n";

#[test]
fn files_of_version_0_1_are_read() {
    let old: Settings = toml::from_str(OLD).unwrap();
    old.check().unwrap();
    old.check_training(Optimiser::Vogn, false).unwrap();
    assert_eq!(
        old.engine.given().collect::<Vec<_>>(),
        ["components", "momentum", "curvature_rate", "damping", "minibatch", "seed"]
    );
    assert_eq!(old.fit.given().collect::<Vec<_>>(), ["model", "data", "outcome"]);
    assert_eq!((old.engine.components, old.engine.minibatch), (Some(OrAuto::Is(2)), Some(32)));
    let again: Settings = toml::from_str(&toml::to_string_pretty(&old).unwrap()).unwrap();
    assert_eq!(again, old);
    // A record of that version holds null where nothing was set.
    let json = r#"{"model": "density", "spec": "a.json", "method": "auto", "rate": null, "mlp": {"batch": null}}"#;
    let record: Settings = serde_json::from_str(json).unwrap();
    assert_eq!((record.engine.rate, record.network.is_empty()), (None, true));
    // Values that the user chose are kept.
    let von = OLD.replace("method = \"auto\"", "method = \"von\"").replace("fitted", "on");
    let von: Settings = toml::from_str(&von).unwrap();
    assert_eq!((von.fit.method, von.engine.entropy_trick), (Some(FitMethod::Engine(Method::Von)), Some(Trick::On)));
}

#[test]
fn duplicate_and_invalid_values_are_refused() {
    let twice = "minibatch = 3\n[mlp]\nbatch = 4\n";
    assert!(toml::from_str::<Settings>(twice).unwrap_err().to_string().contains("`minibatch` is given twice"));
    let wrong = |text: &str| toml::from_str::<Settings>(text).unwrap_err().to_string();
    assert!(wrong("rate = 'fast'").contains("`rate` must be a number, not \"fast\""), "{}", wrong("rate = 'fast'"));
    assert!(wrong("seed = -1").contains("`seed` must be a non-negative whole number, not -1"));
    assert!(wrong("method = 'magic'").contains("`method` must be one of auto, bbvi, ngvi, von, vogn, "));
    assert!(wrong("[mlp]\nhidden = 3").contains("`hidden` must be a list, not 3"), "{}", wrong("[mlp]\nhidden = 3"));
    for (given, names) in [
        ("finish = true", "`finish` must be one of auto, never, always, not true"),
        ("goal = 1", "`goal` must be answer or elbo, not 1"),
        ("draws = 3", "`draws` must be auto or one of independent, antithetic, orthogonal, cubature, not 3"),
        ("components = 1.5", "`components` must be auto or a non-negative whole number, not 1.5"),
    ] {
        assert!(wrong(given).contains(names), "{}", wrong(given));
    }
    assert!(wrong("[mlp]\npace = 3").contains("networks have no setting `pace`"));
    assert!(wrong("pace = 3").contains("there is no setting `pace`"));
}

#[test]
fn methods_are_named_where_they_are_expected() {
    let wrong = natmix::config::parse::<FitMethod>("magic").unwrap_err();
    for name in Method::ALL.map(|entry| entry.1).into_iter().chain(["ivon", "adam"]) {
        assert!(wrong.contains(name), "{name} is not in {wrong}");
        assert_eq!(natmix::config::parse::<FitMethod>(name).unwrap().name(), name);
    }
}
