//! Which settings apply to which model: others are refused with a message that names the setting.

use super::{ModelKind, Settings};
use natmix::Error;
use natmix::config::OrAuto;
use natmix::evaluate::check_threads;
use natmix::family::CovarianceKind;
use natmix_nets::train::{Optimiser, WeightStep};
use natmix_report::formation::MOMENTS;
use std::path::Path;

/// Settings of the engine that training on minibatches reads.
const READ_BY_TRAINING: [&str; 10] = [
    "components",
    "covariance",
    "draws_per_component",
    "rate",
    "momentum",
    "curvature_rate",
    "damping",
    "minibatch",
    "seed",
    "threads",
];
/// Settings of training and of networks that plain networks do not read.
const NOT_READ_BY_ADAM: [&str; 10] = [
    "draws_per_component",
    "momentum",
    "curvature_rate",
    "damping",
    "prior_precision",
    "first_precision",
    "warm_up",
    "curvature",
    "weight_step",
    "score_draws",
];
/// Settings of networks that only training on minibatches reads.
const TRAINING_ONLY: [&str; 10] = [
    "epochs",
    "first_precision",
    "schedule",
    "warm_up",
    "curvature",
    "weight_step",
    "ensemble",
    "weight_decay",
    "validation",
    "patience",
];

fn refuse<T>(setting: &'static str, problem: impl Into<String>) -> Result<T, Error> {
    Err(Error::Config { setting, problem: problem.into() })
}

impl Settings {
    /// Refuses settings that do not apply to the model, or that contradict one another.
    pub fn check(&self) -> Result<(), Error> {
        let Some(model) = self.fit.model else {
            let names = ModelKind::ALL.map(ModelKind::name).join(", ");
            return refuse("model", format!("must be one of {names}: natmix fit MODEL ..."));
        };
        let of_tables = [
            "data",
            "outcome",
            "test",
            "categorical",
            "missing",
            "only",
            "without",
            "reference",
            "weights",
            "offset",
            "exposure",
            "stream",
        ];
        let of_designs = ["standardize", "intercept", "prior_sd"];
        for setting in self.fit.given() {
            let (read, by) = match setting {
                "spec" => (model == ModelKind::Density, "density"),
                "program" | "init" => (model == ModelKind::Stan, "stan"),
                "data" => (model != ModelKind::Density, "models with data"),
                "exposure" => {
                    (matches!(model, ModelKind::Poisson | ModelKind::NegativeBinomial), "poisson and negative-binomial")
                }
                "trials" => (model == ModelKind::Binomial, "binomial"),
                "event" => (model == ModelKind::Survival, "survival"),
                "levels" => (model == ModelKind::Ordinal, "ordinal"),
                "prior" => (model.family().is_some(), "regressions but softmax, which has `prior_sd`"),
                "noise_sd" => (model == ModelKind::Linear, "linear"),
                "weights" | "offset" | "intercept" | "formula" => (model.is_regression(), "regressions"),
                "prior_sd" | "stream" => (model.regression().is_some(), "logistic, linear, poisson and softmax"),
                _ if of_tables.contains(&setting) || of_designs.contains(&setting) => {
                    (!matches!(model, ModelKind::Density | ModelKind::Stan), "models with a table")
                }
                "trace_frames" => (model != ModelKind::Mlp, "models with few parameters"),
                _ => (true, ""),
            };
            if !read {
                return refuse(setting, format!("does not apply to {}, only to {by}", model.name()));
            }
        }
        match model {
            ModelKind::Density if self.fit.spec.is_none() => return refuse("spec", "is missing: a density needs it"),
            ModelKind::Stan if self.fit.program.is_none() => {
                return refuse("program", "is missing: stan needs a .stan program or a compiled model");
            }
            ModelKind::Stan if self.fit.init.is_some() && self.engine.init_mean.is_some() => {
                return refuse("init", "must not be given together with `init_mean`: both say where to start");
            }
            ModelKind::Density | ModelKind::Stan => {}
            _ if self.fit.data.is_none() => return refuse("data", format!("is missing: {} needs it", model.name())),
            _ => {
                let folder = model == ModelKind::Mlp && self.fit.data.as_deref().is_some_and(Path::is_dir);
                if self.fit.formula.is_some() {
                    self.check_beside_formula()?;
                } else if self.fit.outcome.is_none() && !folder {
                    return refuse("outcome", format!("is missing: {} needs it", model.name()));
                }
            }
        }
        if model != ModelKind::Mlp
            && let Some(setting) = self.network.given().next()
        {
            return refuse(setting, format!("does not apply to {}, only to mlp", model.name()));
        }
        self.check_numbers()
    }

    /// Refuses what a formula says itself.
    fn check_beside_formula(&self) -> Result<(), Error> {
        let said = [
            ("outcome", "it stands before `~`"),
            ("offset", "write offset(x) in the formula"),
            ("exposure", "write offset(log(x)) in the formula"),
            ("intercept", "write 0 + in the formula for none"),
            ("trials", "write y | trials(n) ~ in the formula"),
            ("event", "write time | event(e) ~ in the formula"),
            ("stream", "its rows are kept in memory"),
        ];
        match self.fit.given().find_map(|setting| said.iter().find(|(name, _)| *name == setting)) {
            Some((setting, instead)) => {
                refuse(setting, format!("must not be given together with `formula`: {instead}"))
            }
            None => Ok(()),
        }
    }

    fn check_numbers(&self) -> Result<(), Error> {
        check_threads(self.threads())?;
        self.reading()?;
        if let Some(frames) = self.fit.trace_frames
            && !MOMENTS.contains(&frames)
        {
            let (fewest, most) = (MOMENTS.start(), MOMENTS.end());
            let problem = format!("must be from {fewest} to {most}, not {frames}: 60 make a smooth animation");
            return refuse("trace_frames", problem);
        }
        for (setting, x) in [("prior_sd", self.fit.prior_sd), ("noise_sd", self.fit.noise_sd)] {
            if let Some(x) = x
                && !(x > 0.0 && x.is_finite())
            {
                return refuse(setting, format!("must be a positive number, not {x}"));
            }
        }
        Ok(())
    }

    /// Refuses settings that training a network on minibatches does not read.
    /// `validation`: whether there are validation rows.
    pub fn check_training(&self, optimiser: Optimiser, validation: bool) -> Result<(), Error> {
        let name = optimiser.name();
        let adam = optimiser == Optimiser::Adam;
        let engine = self.engine.given().filter(|name| *name != "draws" || self.engine.draws != Some(OrAuto::Auto));
        for setting in engine {
            if !READ_BY_TRAINING.contains(&setting) {
                let problem = format!(
                    "is not read by method {name}, which trains networks on minibatches; small networks can be fitted \
                     by ngvi, von, component-draws, ..."
                );
                return refuse(setting, problem);
            }
        }
        if self.engine.covariance == Some(OrAuto::Is(CovarianceKind::Full)) {
            let problem =
                format!("must be diag with method {name}: small networks can have full ones with von, ngvi, ...");
            return refuse("covariance", problem);
        }
        if self.fit.init_posterior.is_some() {
            return refuse("init_posterior", format!("is not read by method {name}, which starts networks at random"));
        }
        for setting in self.engine.given().chain(self.network.given()) {
            if adam && NOT_READ_BY_ADAM.contains(&setting) {
                return refuse(setting, "is not read by method adam, but by vogn and ivon");
            }
            match setting {
                "ensemble" if !adam => {
                    return refuse(
                        setting,
                        format!("is not read by method {name}, but by adam; for mixtures set `components`"),
                    );
                }
                "weight_decay" if !adam => {
                    return refuse(setting, format!("is not read by method {name}, but by adam"));
                }
                "curvature" if optimiser == Optimiser::Ivon => {
                    return refuse(setting, "is not read by method ivon, but by vogn");
                }
                _ => {}
            }
        }
        if self.network.patience.is_some() && !validation {
            return refuse("patience", "is not read without `validation`");
        }
        if self.network.weight_step == Some(WeightStep::Stacked) && !validation {
            let problem = "must not be stacked without rows to choose the weights by: set `validation` to a file, or \
                           to a share of the rows such as 0.2";
            return refuse("weight_step", problem);
        }
        Ok(())
    }

    /// Refuses settings of minibatch training where the engine fits a network.
    pub fn check_engine_network(&self, method: &str) -> Result<(), Error> {
        match self.network.given().find(|setting| TRAINING_ONLY.contains(setting)) {
            Some(setting) => refuse(setting, format!("is not read by method {method}, but by vogn, ivon and adam")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::NetworkSettings;
    use natmix::config::Overrides;

    #[test]
    fn lists_name_existing_settings() {
        let all = [Overrides::NAMES, NetworkSettings::NAMES].concat();
        for name in READ_BY_TRAINING.iter().chain(&NOT_READ_BY_ADAM).chain(&TRAINING_ONLY) {
            assert!(all.contains(name), "{name}");
        }
    }
}
