//! What can go wrong between a problem and its record.

use natmix_models::DataError;
use natmix_models::study::StudyError;

/// Errors of the application layer. Errors of the engine and of data loading keep their own messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A request that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Reading or writing failed.
    #[error("cannot {what}")]
    Io {
        /// What was tried: "read FILE".
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// One step failed because of another.
    #[error("{what}")]
    Because {
        /// What failed.
        what: String,
        /// Why.
        source: Box<Error>,
    },
    /// An error of the engine.
    #[error(transparent)]
    Engine(#[from] natmix::Error),
    /// An error of a Stan program, its compilation or its data.
    #[error(transparent)]
    Stan(#[from] natmix_stan::Error),
    /// An error in a table or an image file.
    #[error(transparent)]
    Data(#[from] DataError),
}

impl From<StudyError> for Error {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Data(error) => error.into(),
            StudyError::Model(error) => error.into(),
            error => Self::Invalid(error.to_string()),
        }
    }
}

impl Error {
    /// For `map_err` on reads and writes: `what` completes the sentence "cannot ...".
    pub(crate) fn io(what: String) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// For `map_err`: adds which step failed because of this error.
    pub(crate) fn because<E: Into<Self>>(what: String) -> impl FnOnce(E) -> Self {
        move |source| Self::Because { what, source: Box::new(source.into()) }
    }

    /// A setting with an unsuitable value.
    pub(crate) fn setting(setting: &'static str, problem: impl Into<String>) -> Self {
        natmix::Error::Config { setting, problem: problem.into() }.into()
    }
}
