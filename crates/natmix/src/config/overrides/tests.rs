//! How settings are resolved: by default, in layers, for every method.

use super::*;
use crate::config::StrategyConfig;
use crate::family::CovarianceKind;

#[test]
fn auto_depends_on_the_target() {
    let auto = Overrides::default();
    let many = auto.resolve(None, &About { dim: 25, ..About::default() }).unwrap();
    assert_eq!((many.method(), many.components(), many.covariance), (Method::Auto, OrAuto::Auto, CovarianceKind::Full));
    assert_eq!(many, Config::default());
    let about = About { dim: 400, rows: Some(1_000_000), one_mode: true, init: (&[2.0], &[3.0]), ..About::default() };
    let one = auto.resolve(None, &about).unwrap();
    assert_eq!((one.covariance, one.diagnostic_draws), (CovarianceKind::Diag, 1_000));
    let automatic = |dim: usize| Overrides::default().resolve(None, &About { dim, ..About::default() }).unwrap();
    assert_eq!([1_000, 2_000].map(|dim| automatic(dim).covariance), [CovarianceKind::Full, CovarianceKind::Diag]);
    let may_drop =
        |config: Config| matches!(config.strategy, StrategyConfig::Automatic(settings) if settings.drop_correlations);
    assert_eq!([300, 1_000, 2_000].map(|dim| may_drop(automatic(dim))), [false, true, false]);
    let full = Overrides { covariance: Some(CovarianceKind::Full.into()), ..Overrides::default() };
    assert!(!may_drop(full.resolve(None, &About { dim: 1_000, ..About::default() }).unwrap()));
    assert_eq!((one.method(), one.components()), (Method::ComponentDraws, OrAuto::Is(1)));
    let few = auto.resolve(None, &About { rows: Some(1_000), ..about }).unwrap();
    assert_eq!((few.method(), few.components()), (Method::Auto, OrAuto::Auto));
    let parts = Overrides { draws: Some(Plan::Cubature.into()), ..Overrides::default() };
    let parts = parts.resolve(None, &About { one_mode: true, ..about }).unwrap();
    assert_eq!((parts.method(), parts.components()), (Method::ComponentDraws, OrAuto::Is(1)));
    let values = auto.resolve(None, &About { gradient: false, ..About::default() }).unwrap();
    assert_eq!((values.method(), values.components()), (Method::Bbvi, OrAuto::Is(1)));
    assert_eq!((&one.init_mean[..], &one.init_sd[..]), (&[2.0][..], &[3.0][..]));
}

/// One value for each setting, none of them a default.
fn all() -> Overrides {
    let json = r#"{
        "components": 3, "covariance": "diag", "source": "mixture", "draws": "orthogonal",
        "radius": "fixed", "draws_per_component": 17, "estimator": "exact", "entropy_trick": "on", "rule": "improved",
        "rate": 0.25, "decay": 0.125, "step_cap": 2.0, "trust_region": 0.5, "momentum": 0.75, "curvature_rate": 0.0625,
        "damping": 0.5, "weight_rule": "plain", "weight_rate": 0.5, "weight_trust_region": 0.25, "minibatch": 9,
        "goal": "elbo", "finish": "always", "tolerance": 0.5, "max_evals": 77, "max_seconds": 8.0, "init_mean": [1.0, 2.0], "init_sd": 3.0, "check": false,
        "seed": 11, "threads": 2
    }"#;
    let all: Overrides = serde_json::from_str(json).unwrap();
    assert_eq!(all.given().count(), Overrides::NAMES.len());
    all
}

/// Only the named settings.
fn only(names: &[&str]) -> Overrides {
    let serde_json::Value::Object(mut map) = serde_json::to_value(all()).unwrap() else { unreachable!() };
    map.retain(|name, _| names.contains(&&name[..]));
    serde_json::from_value(map.into()).unwrap()
}

#[test]
fn later_layers_win() {
    let file = Overrides { seed: Some(4), rate: Some(0.5), ..Overrides::default() };
    let flags = Overrides { seed: Some(5), components: Some(OrAuto::Auto), ..Overrides::default() };
    let both = flags.over(file);
    assert_eq!(both.given().collect::<Vec<_>>(), ["components", "rate", "seed"]);
    assert_eq!((both.seed, both.rate), (Some(5), Some(0.5)));
}

#[test]
fn every_setting_is_read_or_refused_by_every_method() {
    let about = About { dim: 2, ..About::default() };
    let mut reads = Vec::new();
    for (method, name, _) in Method::ALL {
        let mut read = Vec::new();
        for setting in Overrides::NAMES {
            match only(&[*setting]).resolve(Some(method), &about) {
                Ok(config) => {
                    read.push(*setting);
                    let same = config == Overrides::default().resolve(Some(method), &about).unwrap();
                    // Those that are the method's own already.
                    let own =
                        [("von", "estimator"), ("mixture-draws", "source"), ("bbvi", "source"), ("vogn", "covariance")];
                    assert_eq!(same, own.contains(&(name, *setting)), "{setting} with {name}");
                }
                // Not on its own: bbvi's rule and estimator go together, vogn's rule and covariances.
                Err(Error::Config { setting: named, problem }) if !problem.contains("is not read by") => {
                    let together = [("bbvi", "estimator", "rule"), ("bbvi", "rule", "rule")];
                    assert!(together.contains(&(name, setting, named)), "{setting} with {name}: {named}: {problem}");
                    read.push(*setting);
                }
                Err(Error::Config { setting: named, problem }) => {
                    assert_eq!(named, *setting);
                    assert!(problem.contains(&format!("is not read by method {name}")), "{problem}");
                    assert!(problem.contains(", but by "), "{problem}");
                }
                Err(other) => panic!("{setting} with {name}: {other}"),
            }
        }
        reads.push((name, read));
    }
    let common = [
        "components",
        "covariance",
        "goal",
        "finish",
        "tolerance",
        "max_evals",
        "max_seconds",
        "check",
        "init_mean",
        "init_sd",
        "seed",
        "threads",
    ];
    let parts =
        ["source", "draws", "draws_per_component", "estimator", "entropy_trick", "rule", "weight_rule", "minibatch"];
    let stepping = ["rate", "decay"];
    let weights = ["weight_rate", "weight_trust_region"];
    let expected: [(&str, &[&[&str]]); 7] = [
        ("auto", &[]),
        ("bbvi", &[&parts, &stepping, &["momentum"]]),
        ("ngvi", &[&parts, &stepping, &weights, &["radius"]]),
        ("von", &[&parts, &stepping, &weights, &["radius"]]),
        ("vogn", &[&parts, &stepping, &weights, &["radius", "momentum", "curvature_rate", "damping"]]),
        ("mixture-draws", &[&parts, &stepping, &weights, &["radius"]]),
        ("component-draws", &[&parts, &weights, &["radius", "trust_region"]]),
    ];
    for ((name, mut read), (same, groups)) in reads.into_iter().zip(expected) {
        let mut expected: Vec<&str> = common.iter().chain(groups.iter().copied().flatten()).copied().collect();
        expected.sort_unstable();
        read.sort_unstable();
        assert_eq!((name, read), (same, expected));
    }
}

#[test]
fn settings_of_a_rule_are_read_with_that_rule() {
    let about = About { dim: 2, ..About::default() };
    let rule = |rule, names: &[&str]| Overrides { rule: Some(rule), ..only(names) }.resolve(None, &about);
    let parts = rule(Rule::Improved, &["rate", "decay", "step_cap"]).unwrap();
    let parts = parts.parts().unwrap();
    assert_eq!((parts.rate, parts.decay, parts.step_cap), (0.25, 0.125, 2.0));
    let momentum = rule(Rule::Momentum, &["covariance", "momentum", "curvature_rate", "damping"]).unwrap();
    assert_eq!(momentum.parts().unwrap().curvature_rate, Some(0.0625));
    let error = rule(Rule::Plain, &["step_cap"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "`step_cap` is not read by method component-draws with rule plain, but by component-draws with rule improved"
    );
}

#[test]
fn parts_are_refused_where_auto_is_asked_for() {
    let about = About::default();
    let implicit = Overrides { rule: Some(Rule::Plain), rate: Some(0.5), ..Overrides::default() };
    assert_eq!(implicit.resolve(None, &about).unwrap().method(), Method::ComponentDraws);
    let error = implicit.resolve(Some(Method::Auto), &about).unwrap_err().to_string();
    let all = "bbvi, ngvi, von, vogn, mixture-draws, component-draws";
    assert_eq!(error, format!("`rule` is not read by method auto, but by {all}"));
    let plan = Overrides { draws: Some(OrAuto::Auto), ..Overrides::default() };
    assert_eq!(plan.resolve(Some(Method::Auto), &about).unwrap().method(), Method::Auto);
}

#[test]
fn errors_of_wrong_values_list_the_accepted_ones() {
    let message = |json: &str| serde_json::from_str::<Overrides>(json).unwrap_err().to_string();
    assert!(
        message(r#"{"draws": "dice"}"#).contains("unknown variant `dice`, expected auto or one of `independent`, ")
    );
    assert!(message(r#"{"components": "many"}"#).contains("expected auto or usize"));
    let round = message(r#"{"covariance": "round"}"#);
    assert!(round.contains("expected auto or ") && round.contains("`full`") && round.contains("`diag`"), "{round}");
    assert!(message(r#"{"pace": 1}"#).contains("unknown field `pace`"));
    let none = Overrides { components: Some(0.into()), ..Overrides::default() };
    assert!(none.resolve(None, &About::default()).unwrap_err().to_string().contains("at least 1"));
    // Version 0.1 wrote numbers of components as text.
    let old: Overrides = serde_json::from_str(r#"{"components": "3", "covariance": "auto"}"#).unwrap();
    assert_eq!((old.components, old.covariance), (Some(OrAuto::Is(3)), Some(OrAuto::Auto)));
}

#[test]
fn chains_need_gradients() {
    let always = Overrides { finish: Some(Finish::Always), ..Overrides::default() };
    let without = About { gradient: false, ..About::default() };
    let Err(Error::Config { setting: "finish", problem }) = always.resolve(None, &without) else { panic!("no error") };
    assert!(problem.contains("without gradients"), "{problem}");
    assert_eq!(always.resolve(None, &About::default()).unwrap().finish, Finish::Always);
    assert_eq!(Overrides::default().resolve(None, &without).unwrap().finish, Finish::Auto);
}

#[test]
fn low_rank_covariances_are_for_the_method_that_estimates_them() {
    let given = Overrides { covariance: Some(OrAuto::Is(CovarianceKind::LowRank)), ..Overrides::default() };
    let about = About { dim: 5_000, ..About::default() };
    assert_eq!(given.resolve(None, &about).unwrap().covariance, CovarianceKind::LowRank);
    let refused = given.resolve(Some(Method::Ngvi), &about).unwrap_err().to_string();
    assert!(refused.contains("low-rank") && refused.contains("auto"), "{refused}");
}
