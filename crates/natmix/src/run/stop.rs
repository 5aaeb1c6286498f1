//! Why a run ends.

use serde::{Deserialize, Serialize};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The ELBO's drift fell below the tolerance.
    Converged,
    /// The draws of the mixture were seen to hold, with weights if need be; see [`crate::config::Goal::Answer`].
    AnswerHolds,
    /// The iterations are used up.
    MaxIterations,
    /// The evaluations are used up.
    MaxEvals,
    /// The time is used up.
    MaxSeconds,
    /// The run moved to where no point can be evaluated; the best mixture so far is returned.
    LostSupport,
    /// There was nothing to fit: a mixture was given, and chains finish it. See [`crate::Fit::finish`].
    Given,
    /// An observer asked for it.
    Cancelled,
    /// An observer failed; see [`crate::run::Fitted::observer_error`].
    ObserverFailed,
}

impl StopReason {
    /// The name that reports use.
    pub fn name(self) -> &'static str {
        match self {
            StopReason::Converged => "converged",
            StopReason::AnswerHolds => "answer-holds",
            StopReason::MaxIterations => "max-iterations",
            StopReason::MaxEvals => "max-evals",
            StopReason::MaxSeconds => "max-seconds",
            StopReason::LostSupport => "lost-support",
            StopReason::Given => "given",
            StopReason::Cancelled => "cancelled",
            StopReason::ObserverFailed => "observer-failed",
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stop {
    /// The reason.
    pub reason: StopReason,
    /// Whether the run came to its own end: the ELBO had converged, or the answer was seen to hold.
    pub converged: bool,
}
