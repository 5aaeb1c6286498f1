//! Saved posteriors: those of version 0.1 still load and predict the same, and new ones are read back unchanged.

use natmix::answer::delivered::DeliveredDraws;
use natmix::answer::level::Level;
use natmix::family::{Gaussian, Mixture};
use natmix::save::Posterior;
use natmix_app::saved::{ExternalMemory, SavedVariable};
use natmix_app::{SavedModel, SavedPosterior};
use natmix_models::Table;
use serde_json::json;
use std::path::PathBuf;

fn old(model: &str) -> SavedPosterior {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{model}-0.1.safetensors"));
    SavedPosterior::load(&path).unwrap()
}

fn row(age: f64) -> Table {
    Table::from_values("the table", vec!["age".into()], vec![age]).unwrap()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs().max(1.0);
    assert!(found.iter().zip(expected).all(close), "{found:?}, expected {expected:?}");
}

fn predicted(posterior: &SavedPosterior) -> Vec<f64> {
    let rows = posterior.encode_rows(row(3.5)).unwrap();
    posterior.predict(&rows, 100, 1, false).unwrap().columns().into_iter().map(|(_, column)| column[0]).collect()
}

#[test]
fn a_regression_saved_by_version_0_1_gives_the_same_predictions_and_draws() {
    let posterior = old("regression");
    assert!(matches!(posterior.model, SavedModel::Regression(_)));
    assert_eq!(posterior.names(), ["(intercept)", "age"]);
    // What version 0.1 printed.
    assert_close(&predicted(&posterior), &[0.4495667630047578, 0.2248110522756541, 0.6880514965418868]);
    let draw = posterior.to_own_scale(&posterior.mixture.sample(1, 1)).unwrap();
    assert_close(&draw, &[-6.419698125796025, 1.625105681353221]);
}

#[test]
fn a_network_saved_by_version_0_1_gives_the_same_predictions() {
    let posterior = old("network");
    assert!(matches!(posterior.model, SavedModel::Network(_)));
    let figures =
        [0.5316009470654033, 0.11873291704698549, 0.6911486090645267, 0.6620092653859444, 0.029139343678582286];
    assert_close(&predicted(&posterior), &figures);
}

#[test]
fn a_density_saved_by_version_0_1_gives_the_same_draws_and_refuses_to_predict() {
    let posterior = old("density");
    assert!(matches!(posterior.model, SavedModel::Density(_)));
    let draw = posterior.to_own_scale(&posterior.mixture.sample(1, 1)).unwrap();
    assert_close(&draw, &[-0.612457523213265, 0.6321184396093114]);
    assert!(posterior.encode_rows(row(1.0)).unwrap_err().to_string().contains("nothing to predict"));
}

#[test]
fn saved_posteriors_are_read_back_unchanged() {
    for model in ["regression", "network", "density"] {
        let posterior = old(model);
        let bytes = posterior.to_bytes().unwrap();
        assert_eq!(SavedPosterior::from_bytes(&bytes).unwrap(), posterior, "{model}");
    }
    let mixture = Mixture::single(Gaussian::isotropic(vec![0.0, 1.0], 0.5));
    let variables = vec![SavedVariable { name: "a".into(), shape: vec![3], dims: vec!["row".into()] }];
    let coords = json!({"row": ["x", 1, 2.5]}).as_object().unwrap().clone();
    let posterior = SavedPosterior {
        mixture,
        parameter_names: vec!["a[x]".into(), "a[1]".into(), "a[2.5]".into()],
        settings: None,
        model: SavedModel::External(ExternalMemory { variables, coords }),
        level: Some(Level::Weighted),
        answer: Some(DeliveredDraws { draws: vec![0.5, -1.0, 2.0, 0.0], weights: vec![0.75, 0.25], chains: None }),
    };
    assert_eq!(SavedPosterior::from_bytes(&posterior.to_bytes().unwrap()).unwrap(), posterior);
    assert!(posterior.to_own_scale(&[0.0, 1.0]).unwrap_err().to_string().contains("only its Python model can compute"));
}

#[test]
fn invalid_documents_are_refused_with_a_reason() {
    let mixture = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
    let refused = |details| {
        let posterior =
            Posterior { mixture: mixture.clone(), parameter_names: vec!["a".into()], details, answer: None };
        SavedPosterior::from_bytes(&posterior.to_bytes().unwrap()).unwrap_err().to_string()
    };
    assert!(refused(json!({"schema": 2, "model": {"external": {}}})).contains("use a newer natmix"));
    assert!(refused(json!({"schema": 1, "settings": null, "model": {"other": {}}})).contains("fit the model again"));
    assert!(refused(json!({"memory": {"kind": 3}})).contains("fit the model again"));
    let network = old("network");
    let details = json!({"schema": 1, "settings": null, "model": network.model});
    assert!(refused(details).contains("do not match its mixture"));
    // A posterior saved through the engine's own API has coordinates and nothing else.
    let plain = Posterior {
        mixture: mixture.clone(),
        parameter_names: vec!["a".into()],
        details: "a note".into(),
        answer: None,
    };
    let plain = SavedPosterior::from_bytes(&plain.to_bytes().unwrap()).unwrap();
    assert_eq!(plain.to_own_scale(&[2.0]).unwrap(), [2.0]);
}
