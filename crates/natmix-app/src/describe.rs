//! From a finished fit to its report: the same words and numbers whoever asked for it.

use crate::settings::Settings;
use crate::summary;
use natmix::target::Target;
use natmix::{Error, Fitted};
use natmix_models::Study;
use natmix_report::{Component, Draws, Estimate, Evals, Model, Report, Stop};
use serde_json::json;

/// What was fitted.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The target.
    pub target: &'a dyn Target,
    /// Its table and regression, if it is one.
    pub study: Option<&'a Study>,
    /// Name of the model.
    pub kind: &'a str,
    /// One line for people.
    pub summary: &'a str,
    /// How it was fitted.
    pub settings: &'a Settings,
}

impl Subject<'_> {
    /// The report of a fit, without figures of rows. `draws` are those of [`summary::draws`], on the user's own scale.
    pub fn report(&self, fitted: &Fitted, draws: &Draws) -> Result<Report, Error> {
        let q = &fitted.mixture;
        let Some(diagnostics) = &fitted.diagnostics else {
            return Err(Error::InvalidInput("no diagnostics were measured".into()));
        };
        let modes = q.modes().len();
        Ok(Report {
            verdict: summary::verdict(self.summary, modes, q.len(), &diagnostics.verdict),
            elbo: Estimate { mean: diagnostics.elbo.mean, se: diagnostics.elbo.se },
            log_evidence: Estimate { mean: diagnostics.log_evidence.mean, se: diagnostics.log_evidence.se },
            k_hat: diagnostics.k_hat,
            k_threshold: diagnostics.k_threshold,
            ess: diagnostics.ess,
            modes,
            search: fitted.search.clone(),
            components: q
                .components()
                .iter()
                .zip(q.weights())
                .map(|(component, weight)| Component { weight, mean: component.mean().to_vec(), sd: component.sd() })
                .collect(),
            parameters: summary::parameters(draws),
            model: Model {
                kind: self.kind.to_owned(),
                summary: self.summary.to_owned(),
                rows: self.target.num_rows(),
                priors: self.study.map_or_else(Vec::new, |study| study.regression.prior().to_vec()),
            },
            evals: Evals { points: fitted.evals, diagnostics: diagnostics.draws as u64 },
            iterations: fitted.iterations,
            seconds: fitted.seconds,
            stop: Stop { reason: fitted.stop.reason.name().to_owned(), converged: fitted.stop.converged },
            seed: self.settings.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // The number of threads never changes a result, so it is no part of one.
            config: json!({"settings": self.settings, "engine": natmix::Config { threads: 0, ..fitted.config.clone() }}),
            train: None,
            test: None,
            ood: None,
            loo: None,
        })
    }
}

/// One line about a regression. `file` is where its table came from.
pub fn regression(study: &Study, file: Option<&str>) -> String {
    let encoding = &study.memory.encoding;
    let (dim, rows) = (encoding.dim(), study.num_rows().unwrap_or(0));
    format!(
        "a {} regression of `{}` on {dim} coefficient{} ({}{rows} rows)",
        study.memory.kind.name(),
        encoding.outcome.as_ref().map_or("", |outcome| &outcome.column),
        if dim == 1 { "" } else { "s" },
        file.map_or_else(String::new, |file| format!("{file}, "))
    )
}
