//! Problems that several processes share: they agree on what they have read, keep their share, and all but the one that leads answer it.

use crate::Error;
use crate::networks::record;
use crate::networks::train::Training;
use crate::problem::{Problem, TableNetwork};
use crate::settings::{FitMethod, Settings};
use natmix::target::Target;
use natmix_models::ranks::{About, Ranks};
use natmix_models::study::StudyError;
use natmix_models::table::TableFile;
use natmix_models::{Dataset, OutcomeKind, Study};
use natmix_nets::train::with_threads;
use std::path::Path;
use std::sync::Arc;

impl Problem {
    /// Answers the process that leads until its fit is over: what the other ones do with a problem that they share.
    pub fn serve(&self, settings: &Settings, ranks: &Ranks) -> Result<(), Error> {
        if let Problem::Network(network) = self {
            return network.serve(settings, ranks);
        }
        let rows = match self.study().map(|study| study.regression.data()) {
            Some(Dataset::Shared(rows)) => Some(rows),
            _ => None,
        };
        ranks.serve(self.target()?, rows).map_err(|error| Error::Engine(error.into()))
    }
}

impl TableNetwork {
    /// Trains and predicts along with the process that leads.
    fn serve(&self, settings: &Settings, ranks: &Ranks) -> Result<(), Error> {
        with_threads(settings.threads(), || {
            if let Some(optimiser) = FitMethod::optimiser(settings.fit.method) {
                Training::new(settings, &self.data, optimiser)?.shared_by(self.ranks.clone())?.help()?;
            }
            record::help(&self.data, settings, ranks)
        })?
    }
}

/// Makes sure that all processes have the same settings and have read the same: `rows` says what beside the columns.
pub(crate) fn agree(ranks: &Ranks, settings: &Settings, columns: Vec<String>, rows: String) -> Result<(), Error> {
    Ok(ranks.agree(Ok(&About { settings: words(settings)?, columns, rows })).map_err(StudyError::from)?)
}

/// The settings in words.
fn words(settings: &Settings) -> Result<String, Error> {
    serde_json::to_string(settings).map_err(|error| Error::Invalid(error.to_string()))
}

/// Reads a table that several processes share: each keeps its rows.
pub(crate) fn study(path: &Path, settings: &Settings, ranks: &Arc<Ranks>, kind: OutcomeKind) -> Result<Study, Error> {
    let file = TableFile::open_with(path, &settings.reading()?)?;
    let (prior_sd, noise_sd) = (settings.prior_sd(), settings.fit.noise_sd);
    Ok(Study::shared(&file, ranks, &words(settings)?, &settings.design(), kind, prior_sd, noise_sd)?)
}

/// Keeps the rows of this process, of a table that all have read.
pub(crate) fn by_rows(study: Study, settings: &Settings, ranks: &Arc<Ranks>) -> Result<Study, Error> {
    let (rows, encoding) = (study.num_rows().unwrap_or(0), &study.memory.encoding);
    agree(ranks, settings, encoding.columns(), format!("{rows} rows, {encoding:?}"))?;
    Ok(study.share(ranks, settings.prior_sd())?)
}
