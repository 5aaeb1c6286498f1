//! Poisson and softmax regressions against posteriors that were sampled without natmix, see
//! `testdata/make_references.py`.

mod common;

use common::{CommandFolder, number};
use serde_json::Value;

/// Draws behind the means and standard deviations of a report.
const DRAWS: f64 = 4000.0;

/// Means and standard deviations agree within four standard errors, combining those of the reference and of the
/// report's own draws: a fifteenth of a posterior sd for means, a twentieth for sds. Four, because some forty numbers
/// are compared: in one of ten runs, one of them is beyond three. The evidence agrees within three of its own errors.
/// Default settings, with the few components that the automatic method needs for these posteriors.
#[test]
fn posteriors_agree_with_those_of_other_samplers() {
    let testdata = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let text = std::fs::read_to_string(format!("{testdata}/references.json")).unwrap();
    let references: Value = serde_json::from_str(&text).unwrap();
    for (model, reference) in references.as_object().unwrap() {
        let folder = CommandFolder::new(&format!("reference-{model}"));
        let table = format!("{model}.csv");
        folder.write(&table, std::fs::read(format!("{testdata}/{table}")).unwrap());
        folder.expect(&[0], &format!("{} --seed 1 --out fit --quiet", reference["command"].as_str().unwrap()));
        let report = folder.report("fit");
        assert_eq!(number(&report, "/train/rows"), if model == "poisson" { 400.0 } else { 500.0 });

        let [found, expected] = [&report, reference].map(|source| source["parameters"].as_array().unwrap());
        assert_eq!(found.len(), expected.len(), "{model}");
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found["name"], expected["name"]);
            let [mean, sd] = ["/mean", "/sd"].map(|what| number(found, what));
            let spread = number(expected, "/sd");
            for (what, value, of_draws) in
                [("mean", mean, spread / DRAWS.sqrt()), ("sd", sd, spread / (2.0 * DRAWS).sqrt())]
            {
                let truth = number(expected, &format!("/{what}"));
                let error = of_draws.hypot(number(expected, &format!("/{what}_se")));
                let gap = (value - truth) / error;
                println!("{model}, {what} of {}: {value:.6}, reference {truth:.6}, {gap:+.2} errors", found["name"]);
                assert!(gap.abs() < 4.0, "{model}, {what} of {}: {value}, reference {truth} +- {error}", found["name"]);
            }
        }
        let [value, se] = ["mean", "se"].map(|what| number(&report, &format!("/log_evidence/{what}")));
        let (truth, error) = (number(reference, "/log_evidence"), se.hypot(number(reference, "/log_evidence_se")));
        println!("{model}, log evidence: {value:.5}, reference {truth:.5}, {:+.2} errors", (value - truth) / error);
        assert!((value - truth).abs() < 3.0 * error, "{model}: log evidence {value}, reference {truth} +- {error}");
    }
}
