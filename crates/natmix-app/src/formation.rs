//! `--trace-frames`: records frames during a run and turns them into a [`Formation`].

use crate::Error;
use crate::folder::OutputFolder;
use crate::record::{files, read_frames};
use crate::settings::Settings;
use natmix::Fitted;
use natmix::observe::{Film, Frame};
use natmix::target::Target;
use natmix_report::formation::Formation;

/// Records how the mixture forms during a run.
pub(crate) struct FormationRecorder {
    /// Observes the run and keeps frames.
    pub film: Film,
    /// Frames of the interrupted run that this one resumes.
    earlier: Option<Formation>,
    most: usize,
}

impl FormationRecorder {
    /// `None` unless frames were requested.
    pub fn new(settings: &Settings, out: &OutputFolder, resumed: bool) -> Result<Option<Self>, Error> {
        let Some(most) = settings.fit.trace_frames else { return Ok(None) };
        // A killed run leaves a checkpoint but no frames: any frames in the folder belong to an earlier run.
        let killed = out.staged(files::CHECKPOINT).exists();
        let earlier = if resumed && !killed { read_frames(settings.out())? } else { None };
        Ok(Some(Self { film: Film::new(most), earlier, most }))
    }

    /// Adds the final mixture to the recorded frames. `before` is the number of evaluations made before the run.
    pub fn finish(self, target: &dyn Target, fitted: &Fitted, before: u64) -> Result<Formation, Error> {
        let mut frames = self.film.into_frames();
        if let Some(subspace) = &fitted.subspace {
            for frame in &mut frames {
                frame.mixture = subspace.lift_mixture(&frame.mixture)?;
            }
        }
        frames.iter_mut().for_each(|frame| frame.evals += before);
        let last = Frame {
            iteration: fitted.iterations,
            evals: fitted.evals,
            elbo: fitted.diagnostics.as_ref().map_or(fitted.running_elbo.0, |diagnostics| diagnostics.elbo.mean),
            mixture: fitted.mixture.clone(),
        };
        Ok(Formation::new(target, &frames, &last, self.earlier, self.most))
    }
}
