//! What can go wrong with a Stan program, its library and its data.

use std::path::PathBuf;

/// Errors of Stan models. What Stan and compilers say is passed on as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {file}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {file}")]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is neither a program nor a library.
    #[error("{file} is neither a Stan program (.stan) nor a compiled model (.so, .dylib or .dll)")]
    NotStan {
        /// The file.
        file: PathBuf,
    },
    /// The dynamic loader refuses a library.
    #[error("{file} cannot be loaded as a compiled Stan model: {problem}")]
    Load {
        /// The library.
        file: PathBuf,
        /// The loader's words.
        problem: String,
    },
    /// A library lacks a function.
    #[error(
        "{file} is not a Stan model with BridgeStan's interface: it has no function `{function}` (compile the .stan program \
         instead)"
    )]
    NotAModel {
        /// The library.
        file: PathBuf,
        /// What is missing.
        function: &'static str,
    },
    /// A library has another version of the interface.
    #[error(
        "{file} was compiled for version {} of BridgeStan's interface, but natmix uses version {expected}: compile the model \
         again",
        found.map(|part| part.to_string()).join(".")
    )]
    Version {
        /// The library.
        file: PathBuf,
        /// Its version.
        found: [i32; 3],
        /// The major version that is needed.
        expected: i32,
    },
    /// The model refuses its data.
    #[error("the data do not fit the model: {0}")]
    Data(String),
    /// The model refuses its initial values.
    #[error("the initial values do not fit the model: {0}")]
    Init(String),
    /// A function of the model fails where it should not.
    #[error("the model failed: {0}")]
    Failed(String),
    /// There is nothing to infer.
    #[error("the model has no parameters: there is nothing to fit")]
    NoParameters,
    /// No tools to compile with.
    #[error(
        "no Stan tools were found to compile {file} with: `pip install httpstan` is enough, into the Python that is active, first \
         on PATH or named by NATMIX_PYTHON; or set CMDSTAN or BRIDGESTAN to the folder of CmdStan or BridgeStan"
    )]
    NoToolchain {
        /// The program.
        file: PathBuf,
    },
    /// Tools that are named by the user but not complete.
    #[error("{origin} is {folder}, which has no {missing}: {advice}")]
    Toolchain {
        /// Where the folder was named.
        origin: String,
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        missing: String,
        /// What to try.
        advice: &'static str,
    },
    /// No C++ compiler.
    #[error(
        "no C++ compiler was found to compile {file} with (looked for {tried}): install one, such as g++, or set CXX to its name"
    )]
    NoCompiler {
        /// The program.
        file: PathBuf,
        /// Names.
        tried: String,
    },
    /// The program is not valid Stan.
    #[error("{file} is not a valid Stan program.\n{message}")]
    Syntax {
        /// The program.
        file: PathBuf,
        /// What stanc says.
        message: String,
    },
    /// A file that the program includes is not there.
    #[error("{file} includes `{included}`, which is not there: {looked}.\n{place}")]
    Include {
        /// The program.
        file: PathBuf,
        /// The name in the program.
        included: String,
        /// Where it was looked for.
        looked: &'static str,
        /// The place in the program, as stanc shows it.
        place: String,
    },
    /// The C++ compiler failed.
    #[error("the C++ code of {file} cannot be compiled with {compiler}: {message}")]
    Compile {
        /// The program.
        file: PathBuf,
        /// The compiler.
        compiler: String,
        /// The end of what it says.
        message: String,
    },
    /// A command cannot be run at all.
    #[error("cannot run {command}")]
    Run {
        /// The command.
        command: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Compiling was cancelled.
    #[error("compiling was cancelled")]
    Cancelled,
    /// The cache cannot be used.
    #[error("cannot store compiled models in {folder} (set NATMIX_CACHE to a folder that can be written to)")]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
