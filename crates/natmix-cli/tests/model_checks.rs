//! Regressions are judged as models: overdispersion, exact fits, separation, outliers. The verdict on the fit stays.

mod common;

use common::{CommandFolder, TableNoise};

fn notes(report: &serde_json::Value) -> String {
    report["model_notes"].as_array().map_or(String::new(), |notes| format!("{notes:?}"))
}

/// p of a statistic.
fn p(report: &serde_json::Value, statistic: &str) -> f64 {
    let checks = report["model_checks"].as_array().unwrap();
    checks.iter().find(|check| check["statistic"] == statistic).unwrap()["p"].as_f64().unwrap()
}

/// Counts with mean exp(1 + 0.5 a), multiplied by a factor of 0 or 2 if `wild`.
fn counts(rows: usize, wild: bool) -> String {
    let mut noise = TableNoise(4);
    let mut text = String::from("a,y\n");
    for _ in 0..rows {
        let a = 2.0 * noise.uniform() - 1.0;
        let factor = if wild { f64::from(u8::from(noise.uniform() < 0.5)) * 2.0 } else { 1.0 };
        let (mean, mut count, mut u) = (factor * (1.0 + 0.5 * a).exp(), 0, noise.uniform());
        let mut term = (-mean).exp();
        while u > term && count < 100 {
            u -= term;
            count += 1;
            term *= mean / f64::from(count);
        }
        text += &format!("{a},{count}\n");
    }
    text
}

#[test]
fn counts_that_vary_too_much_are_noted_and_trusted() {
    let folder = CommandFolder::new("checks-counts");
    folder.write("wild.csv", counts(300, true));
    folder.write("tame.csv", counts(300, false));
    let out = folder.expect(&[0], "fit poisson --data wild.csv --outcome y --out wild").out;
    let wild = folder.report("wild");
    assert!(notes(&wild).contains("times as much as a Poisson allows"), "{}", notes(&wild));
    assert!(out.contains("  model: the counts vary"), "{out}");
    assert!(wild["verdict"]["trusted"] == true && p(&wild, "dispersion") < 0.01 && p(&wild, "zeros") < 0.01);
    let page = String::from_utf8(folder.read("wild/report.html")).unwrap();
    assert!(page.contains("id=\"checks\"") && page.contains("id=\"model\"") && page.contains("id=\"outcome\""));
    // Zeros are more frequent than in the data sets that the model draws.
    let zeros = &wild["outcome_check"];
    let high = zeros["replicated"][0][2].as_f64().unwrap();
    assert!(zeros["edges"][0] == -0.5 && zeros["observed"][0].as_f64().unwrap() > high, "{zeros}");
    folder.expect(&[0], "fit poisson --data tame.csv --outcome y --quiet --out tame");
    let tame = folder.report("tame");
    assert!(notes(&tame).is_empty() && (0.01..0.99).contains(&p(&tame, "dispersion")), "{}", notes(&tame));
    // The page again, from the files.
    folder.expect(&[0], "report wild");
    assert_eq!(String::from_utf8(folder.read("wild/report.html")).unwrap(), page);
}

#[test]
fn exact_fits_outliers_and_separated_classes_are_noted() {
    let folder = CommandFolder::new("checks-exact");
    let mut noise = TableNoise(7);
    let rows: Vec<[f64; 3]> = (0..80).map(|_| [noise.normal(), noise.normal(), noise.normal()]).collect();
    let write = |name: &str, y: &dyn Fn(usize, &[f64; 3]) -> f64| {
        let lines = rows.iter().enumerate().map(|(i, x)| format!("{},{},{}\n", x[0], x[1], y(i, x)));
        folder.write(name, format!("a,b,y\n{}", lines.collect::<String>()));
    };
    write("exact.csv", &|_, x| 2.0 * x[0] + 1.0);
    write("outlier.csv", &|i, x| x[0] + 0.5 * x[2] + if i == 16 { 15.0 } else { 0.0 });
    write("classes.csv", &|_, x| if x[0] < -0.5 { 0.0 } else { 1.0 + f64::from(u8::from(x[0] > 0.5)) });
    for (model, name, words) in [
        ("linear", "exact", "the model fits exactly"),
        ("linear", "outlier", "the largest residual is"),
        ("softmax", "classes", "all classes are separated"),
    ] {
        folder
            .expect(&[0, 1], &format!("fit {model} --data {name}.csv --outcome y --prior-sd 100 --quiet --out {name}"));
        let found = notes(&folder.report(name));
        assert!(found.contains(words), "{name}: {found}");
    }
    // The outlier is also the row with the most influence, if one has too much.
    let loo = &folder.report("outlier")["loo"];
    if let Some(first) = loo["influential"].as_array().and_then(|rows| rows.first()) {
        assert_eq!(first["row"], 17, "{loo}");
    }
}
