//! Three Stan programs, compiled: their densities, constraints, names and generated quantities.
//!
//! Without Stan's tools or a C++ compiler these tests say so and check nothing; with NATMIX_STAN=required they fail then. The
//! libraries are kept in the build folder: the first run takes a minute or two.

use natmix::target::{Target, log_p_at};
use natmix_stan::compile::{Compiling, StanSource};
use natmix_stan::toolchain::{Compiler, Toolchain};
use natmix_stan::{Error, StanLibrary, StanModel, compile};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Whether programs can be compiled here.
fn tools() -> bool {
    let file = Path::new("a test");
    let missing = Toolchain::find(file).err().or_else(|| Compiler::find(file).err());
    if let Some(missing) = missing {
        assert_ne!(std::env::var("NATMIX_STAN").as_deref(), Ok("required"), "{missing}");
        eprintln!("nothing is checked: {missing}");
        return false;
    }
    true
}

/// The error of a program that is in no file.
fn load_code(text: &str) -> String {
    Compiling::new(&mut |_| {}).load(StanSource::Code(text)).unwrap_err().to_string()
}

fn library(name: &str) -> Option<Arc<StanLibrary>> {
    if !tools() {
        return None;
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stan");
    let (path, remarks) = compile::compile(&program(name), &cache, &mut |what| eprintln!("{what}")).unwrap();
    assert_eq!(remarks, "");
    Some(StanLibrary::load(&path).unwrap())
}

fn model(name: &str) -> Option<StanModel> {
    let library = library(&format!("{name}.stan"))?;
    let data = fs::read_to_string(program(&format!("{name}.json"))).unwrap_or_default();
    Some(StanModel::new(library, &data, 1).unwrap())
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * (1.0 + expected.abs()), "{found} instead of {expected}");
    }
}

/// Compares value and gradient with numbers computed with mpmath, to 40 digits, from the programs' formulas.
fn assert_density(model: &StanModel, z: &[f64], log_p: f64, gradient: &[f64]) {
    let mut found = vec![0.0; z.len()];
    assert_close(&[model.log_density(z, Some(&mut found)).unwrap()], &[log_p], 1e-13);
    assert_close(&[log_p_at(model, z).unwrap()], &[log_p], 1e-13);
    assert_close(&found, gradient, 1e-12);
}

#[test]
fn eight_schools() {
    let Some(model) = model("eight_schools") else { return };
    let z: Vec<f64> = (0..10).map(|i| f64::from(i) / 8.0 - 0.5).collect();
    let gradient = [
        0.505_587_843_269_979_3,
        1.018_521_057_810_634,
        0.337_581_493_705_457_6,
        0.184_010_046_888_158_9,
        -0.006_711_809_363_193_088,
        -0.082_887_406_844_300_3,
        -0.255_700_447_871_367_2,
        -0.367_943_830_901_582,
        -0.375_213_316_187_375_2,
        -0.599_395_410_835_111,
    ];
    assert_density(&model, &z, -45.139_262_908_060_15, &gradient);
    assert_eq!(model.name(), "eight_schools");
    let names = model.parameter_names();
    assert_eq!(
        (names[0].as_str(), names[2].as_str(), names[17].as_str(), names.len()),
        ("mu", "eta[1]", "theta[8]", 18)
    );
    let mut values = [0.0; 18];
    model.to_parameters(&z, &mut values);
    let tau = (-0.375f64).exp();
    let theta: Vec<f64> = z[2..].iter().map(|eta| z[0] + tau * eta).collect();
    assert_close(&values[..2], &[-0.5, tau], 1e-15);
    assert_close(&values[10..], &theta, 1e-15);
    let init = r#"{"mu": 1.5, "tau": 2, "eta": [0, 1, 2, 3, 4, 5, 6, 7], "other": 1}"#;
    assert_close(&model.unconstrain(init).unwrap()[..3], &[1.5, 2f64.ln(), 0.0], 1e-15);
    let error = model.unconstrain(r#"{"mu": 1.5, "tau": -2, "eta": [0, 1, 2, 3, 4, 5, 6, 7]}"#).unwrap_err();
    assert!(error.to_string().contains("is -2, but must be greater"), "{error}");
}

#[test]
fn counts() {
    let Some(model) = model("counts") else { return };
    let gradient = [2.936_852_042_023_770_4, 4.079_671_693_291_51, -1.134_713_687_228_682, 1.025_924_029_878_297_6];
    assert_density(&model, &[0.25, -0.5, 0.75, -0.125], -27.058_020_045_192_11, &gradient);
    // Random numbers follow from the seed, for any number of threads.
    let z: Vec<f64> = (0..4 * 600).map(|i| (f64::from(i) * 0.37).sin()).collect();
    let draws = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| model.draws(&z, seed).unwrap())
    };
    let one = draws(1, 7);
    assert_eq!(one, draws(3, 7));
    assert_ne!(one, draws(1, 8));
    let (all, before) = (model.all_names().len(), model.before_generated());
    assert_eq!((all, before), (16, 4));
    for (row, z) in one.chunks_exact(all).zip(z.chunks_exact(4)) {
        let expected = [z[0].exp(), z[1].exp(), 1.0 / (1.0 + (-z[2]).exp()), z[3].exp() - 1.0];
        assert_close(&row[..4], &expected, 1e-14);
        assert!(row[4..10].iter().all(|y| *y >= 0.0 && y.fract() == 0.0));
        assert!(row[10..].iter().all(|log_lik| *log_lik < 0.0));
    }
    // The mean of the predictions is that of the model: p (rate + 1) + (1 - p) / 2, here at one point.
    let point: Vec<f64> = [0.25, -0.5, 0.75, -0.125].repeat(20_000);
    let draws = model.draws(&point, 1).unwrap();
    let mean = draws.chunks_exact(all).map(|row| row[4]).sum::<f64>() / 20_000.0;
    let p = 1.0 / (1.0 + (-0.75f64).exp());
    let expected = p * (0.25f64.exp() + 1.0) + (1.0 - p) * 0.5;
    let sd = draws.chunks_exact(all).map(|row| (row[4] - mean).powi(2)).sum::<f64>().sqrt() / 20_000.0;
    assert!((mean - expected).abs() < 5.0 * sd && 5.0 * sd < 0.1, "{mean} +- {sd}, not {expected}");
}

#[test]
fn shapes() {
    let Some(model) = model("shapes") else { return };
    let names = model.all_names();
    let named =
        |name: &str| names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no {name}: {names:?}"));
    assert_eq!(model.dim(), 33);
    let z: Vec<f64> = (0..33).map(|i| 0.8 * (f64::from(i) * 0.9).sin()).collect();
    let values = model.draws(&z, 1).unwrap();
    let at = |name: &str| values[named(name)];
    assert!(at("o.1") < at("o.2") && at("o.2") < at("o.3") && 0.0 < at("q.1") && at("q.1") < at("q.2"));
    assert_close(&[at("share.1") + at("share.2") + at("share.3")], &[1.0], 1e-14);
    assert_close(&[at("direction.1").hypot(at("direction.2"))], &[1.0], 1e-14);
    assert_close(&[at("R.1.1"), at("R.2.2"), at("R.3.3"), at("C.1.1")], &[1.0; 4], 1e-14);
    assert_close(&[at("R.3.2"), at("L.1.3")], &[at("L.3.1") * at("L.2.1") + at("L.3.2") * at("L.2.2"), 0.0], 1e-14);
    assert_eq!(at("S.1.2"), at("S.2.1"));
    assert!(at("S.1.1") * at("S.2.2") > at("S.1.2").powi(2));
    assert_eq!((at("pair:1"), at("pair:2.2"), at("z.real"), at("z.imag")), (at("x"), at("direction.2"), at("x"), 2.0));
    // Arrays become those of other tools, the last index running fastest.
    let variables = model.variables();
    let variable = |name: &str| variables.iter().find(|variable| variable.name == name).unwrap();
    assert_eq!((variable("a").shape.as_slice(), variable("m").shape.as_slice()), (&[2, 3][..], &[2, 3][..]));
    assert_eq!(variable("a").columns[1], named("a.1.2"));
    assert_eq!(variable("g").shape, [2, 2, 3]);
    let g: Vec<f64> = variable("g").columns.iter().map(|column| values[*column]).collect();
    let expected = [11.0, 12.0, 21.0, 22.0].map(|k| [k * at("share.1"), k * at("share.2"), k * at("share.3")]).concat();
    assert_close(&g, &expected, 1e-14);
    // Back again; of a unit vector only the direction is known.
    let back = model.unconstrain_values(&values[..model.parameters()]).unwrap();
    assert_close(&back[..7], &z[..7], 1e-12);
    assert_close(&back[9..], &z[9..], 1e-12);
    // The density of the parts whose transformations are the same in all versions of Stan.
    let parts = |z: &[f64]| {
        let normal = |x: f64, mean: f64, sd: f64| -0.5 * ((x - mean) / sd).powi(2);
        let ordered = [z[0], z[0] + z[1].exp(), z[0] + z[1].exp() + z[2].exp()];
        let o: f64 = ordered.iter().map(|x| normal(*x, 0.0, 1.0)).sum::<f64>() + z[1] + z[2];
        let q = -(2.0 * z[3].exp() + z[4].exp()) + z[3] + z[4];
        let a: f64 = z[16..22].iter().map(|x| normal(*x, 1.0, 2.0)).sum();
        let m: f64 = z[22..28].iter().map(|x| normal(*x, -1.0, 0.5)).sum();
        let v: f64 = z[28..32].iter().map(|x| normal(*x, 0.0, 1.0)).sum();
        o + q + a + m + v + normal(z[32], 0.0, 1.0)
    };
    let mut other = z.clone();
    for i in (0..5).chain(16..33) {
        other[i] += 0.3 * (i as f64).cos();
    }
    let difference = log_p_at(&model, &other).unwrap() - log_p_at(&model, &z).unwrap();
    assert_close(&[difference], &[parts(&other) - parts(&z)], 1e-12);
    let mut gradient = vec![0.0; 33];
    model.log_density(&z, Some(&mut gradient)).unwrap();
    for i in 0..33 {
        let (mut ahead, mut behind) = (z.clone(), z.clone());
        ahead[i] += 1e-5;
        behind[i] -= 1e-5;
        let slope = (log_p_at(&model, &ahead).unwrap() - log_p_at(&model, &behind).unwrap()) / 2e-5;
        assert!(
            (slope - gradient[i]).abs() < 1e-7 * (1.0 + slope.abs()),
            "coordinate {i}: {} and {slope}",
            gradient[i]
        );
    }
    // What is rejected, and why.
    other[32] = 1e3;
    assert!(log_p_at(&model, &other).unwrap().is_nan());
    let messages = model.take_messages();
    assert!(messages.iter().any(|message| message.text.contains("x is too large: 2003")), "{messages:?}");
}

#[test]
fn threads_do_not_disturb_one_another() {
    let Some(model) = model("shapes") else { return };
    let points: Vec<Vec<f64>> =
        (0..200).map(|k| (0..33).map(|i| 0.5 * (f64::from(i + 7 * k)).sin()).collect()).collect();
    let evaluate = |z: &Vec<f64>| {
        let mut gradient = vec![0.0; 33];
        let log_p = model.log_density(z, Some(&mut gradient)).unwrap();
        (log_p.to_bits(), gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
    };
    let expected: Vec<_> = points.iter().map(evaluate).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(points.iter().map(evaluate).eq(expected.iter().cloned())));
        }
    });
}

#[test]
fn bad_programs_and_data_are_refused() {
    let Some(library) = library("counts.stan") else { return };
    let data = |text: &str| StanModel::new(library.clone(), text, 1).unwrap_err().to_string();
    let missing = data(r#"{"N": 1, "G": 1, "group": [1]}"#);
    assert!(missing.contains("variable name=y"), "{missing}");
    let wrong = data(r#"{"N": 2, "G": 1, "group": [1, 1], "y": [1]}"#);
    assert!(wrong.contains("variable name=y") && wrong.contains("dims declared=(2); dims found=(1)"), "{wrong}");
    let type_ = data(r#"{"N": 1, "G": 1, "group": [1], "y": [1.5]}"#);
    assert!(type_.contains('y'), "{type_}");
    assert!(data("{\"N\": ").contains("JSON"), "{}", data("{\"N\": "));
    let folder = std::env::temp_dir().join(format!("natmix-stan-bad-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("bad.stan");
    fs::write(&file, "parameters {\n  real x\n}\nmodel { }\n").unwrap();
    let error = compile::compile(&file, &folder.join("cache"), &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::Syntax { message, .. } if message.contains("';' expected") || message.contains("\";\" expected")),
        "{error}"
    );
    fs::write(&file, "functions {\n#include none.stan\n}\nparameters {\n  real x;\n}\nmodel {\n}\n").unwrap();
    let error = compile::compile(&file, &folder.join("cache"), &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::Include { included, place, .. } if included == "none.stan" && place.contains("line 2")),
        "{error}"
    );
    let message = load_code("functions {\n#include none.stan\n}\nparameters {\n  real x;\n}\nmodel {\n}\n");
    assert!(message.contains("only a program that is a file itself"), "{message}");
    // Nothing is left beside a program.
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(&folder).unwrap();
}
