//! Settings files that are damaged at random, with a fixed seed; the fuzz target `read_settings` does it without end.

use super::*;
use natmix::config::About;

const FILES: [&str; 3] = [
    "model = \"logistic\"\ndata = \"a.csv\"\noutcome = \"y\"\ncategorical = [\"b\", \"c\"]\nstandardize = true\nprior_sd = 2.5\nseed = 3\n",
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
fn damaged_settings_are_refused_or_come_back() {
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
            // What changes no result is not written; a NaN is no equal of itself.
            (again.out, again.threads, again.stream) = (settings.out.clone(), settings.threads, settings.stream);
            again.trace_frames = settings.trace_frames;
            assert!(again == settings || written.contains("nan"), "{written}");
            let _ = check(&settings);
            let _ = settings.engine(&About { dim: 3, rows: Some(10), ..About::default() });
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused: weak damage");
}
