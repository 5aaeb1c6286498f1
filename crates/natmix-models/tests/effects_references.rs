//! Families that have no closed form, on small tables, against long runs of NUTS: right and trusted at the defaults.
//!
//! `testdata/effects/nuts.py` writes the table and the reference, with models written from docs/regressions.md.

#[path = "common/right.rs"]
mod right;

use natmix::target::Target;
use natmix::{Config, fit};
use natmix_models::effects::{EffectsOptions, EffectsStudy, Family};
use natmix_models::{Formula, Table};
use right::{Marginal, delivered, worst_error};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/effects").join(name)
}

/// What NUTS found of the parameter of a case.
fn reference(references: &str, case: &str, parameter: &str) -> Marginal {
    let mut lines = references.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let own = lines.find(|fields| fields[..2] == [case, parameter]);
    let own = own.unwrap_or_else(|| panic!("{case}: there is no reference for {parameter}"));
    let numbers: Vec<f64> = own[2..].iter().map(|field| field.parse().unwrap()).collect();
    let &[a, b, c, d, e, mean, sd, kurtosis] = numbers.as_slice() else { panic!("{case}: {numbers:?}") };
    Marginal { quantiles: [a, b, c, d, e], mean, sd, kurtosis }
}

fn check(family: Family, formula: &str) {
    let table = Table::read(&file("nuts.csv"), &[]).unwrap();
    let study =
        EffectsStudy::new(table, &Formula::parse(formula).unwrap(), family, &EffectsOptions::default()).unwrap();
    let names = study.model.parameter_names();
    let references = std::fs::read_to_string(file("nuts.txt")).unwrap();
    let truth: Vec<Marginal> = names.iter().map(|name| reference(&references, family.name(), name)).collect();
    let stored = references.lines().filter(|line| line.split('\t').next() == Some(family.name())).count();
    assert_eq!(stored, truth.len(), "{names:?}");
    // Five seeds take minutes for all families: `NATMIX_LONG=1` runs them.
    let seeds = if std::env::var_os("NATMIX_LONG").is_some() { 1..=5 } else { 1..=1 };
    let mut failed = Vec::new();
    for seed in seeds {
        let fitted = fit(&study.model, &Config { seed, ..Config::default() }).unwrap();
        let (parameters, weights) = delivered(&study.model, &fitted);
        let (worst, place) = worst_error(&names, &truth, &parameters, &weights);
        let diagnostics = fitted.diagnostics.as_ref().unwrap();
        println!(
            "{}, seed {seed}: {:?}, trusted {}, worst {worst:.2} ({place}), {} + {} evaluations, {:.2} s",
            family.name(),
            diagnostics.level,
            diagnostics.verdict.trusted,
            fitted.evals,
            fitted.chain_evals,
            fitted.seconds
        );
        if !diagnostics.verdict.trusted || worst > 1.0 {
            failed.push((seed, worst, place, diagnostics.verdict.reasons.clone()));
        }
    }
    assert!(failed.is_empty(), "{formula}, seeds, errors in limits, and reasons: {failed:?}");
}

#[test]
fn overdispersed_counts() {
    check(Family::NegativeBinomial, "count ~ x + d");
}

#[test]
fn outliers_with_inferred_degrees_of_freedom() {
    check(Family::Robust, "odd ~ x + d");
}

#[test]
fn ordered_categories_in_groups() {
    check(Family::Ordinal { categories: 0 }, "stars ~ x + (1 | g)");
}

#[test]
fn positive_amounts() {
    check(Family::Gamma, "amount ~ x + d");
}

#[test]
fn censored_times() {
    check(Family::Survival, "time | event(seen) ~ x + d");
}

#[test]
fn successes_among_trials_in_groups() {
    check(Family::Binomial, "k | trials(n) ~ x + d + (1 | g)");
}

#[test]
fn answers_with_correlated_intercepts_and_slopes() {
    check(Family::Logistic, "yes ~ x + d + (1 + x | g)");
}

#[test]
fn counts_with_correlated_intercepts_and_slopes() {
    check(Family::Poisson, "events ~ x + d + (1 + x | g)");
}
