//! `--trace-frames`: from an observer of the run to how the mixture formed.

use crate::Error;
use crate::folder::OutputFolder;
use crate::record::{files, read_frames};
use crate::settings::Settings;
use natmix::Fitted;
use natmix::observe::{Film, Frame};
use natmix::target::Target;
use natmix_report::formation::Formation;

/// A film in the making.
pub(crate) struct Filming {
    /// Watches the run.
    pub film: Film,
    /// What an interrupted run has left that this one goes on from.
    earlier: Option<Formation>,
    most: usize,
}

impl Filming {
    /// None if nobody asked for it.
    pub fn new(settings: &Settings, out: &OutputFolder, resumed: bool) -> Result<Option<Self>, Error> {
        let Some(most) = settings.fit.trace_frames else { return Ok(None) };
        // A killed run has left a checkpoint but no frames: those in the folder are of a run before it.
        let killed = out.staged(files::CHECKPOINT).exists();
        let earlier = if resumed && !killed { read_frames(settings.out())? } else { None };
        Ok(Some(Self { film: Film::new(most), earlier, most }))
    }

    /// Adds the result to what was seen. `before` counts evaluations ahead of the run.
    pub fn finish(self, target: &dyn Target, fitted: &Fitted, before: u64) -> Formation {
        let mut frames = self.film.into_frames();
        frames.iter_mut().for_each(|frame| frame.evals += before);
        let last = Frame {
            iteration: fitted.iterations,
            evals: fitted.evals,
            elbo: fitted.diagnostics.as_ref().map_or(fitted.running_elbo.0, |diagnostics| diagnostics.elbo.mean),
            mixture: fitted.mixture.clone(),
        };
        Formation::new(target, &frames, &last, self.earlier, self.most)
    }
}
