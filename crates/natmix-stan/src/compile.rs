//! From a program to a library: stanc, then the C++ compiler, once per content.
//!
//! The C++ code of a program begins with Stan's headers, which take longer to read than the program to compile: they are
//! precompiled once per toolchain, together with the functions of the interface. The library is stored under a checksum of all
//! that it is made of; stanc runs every time, so a program's included files are part of that.

use crate::command::output;
use crate::include::missing;
use crate::toolchain::{Compiler, Toolchain};
use crate::{Error, StanLibrary, cache};
use natmix::observe::Cancel;
use natmix::save::checksum::Checksum;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HEADER: &str = include_str!("../cpp/natmix_stan.hpp");
const HEADER_NAME: &str = "natmix_stan.hpp";
const INTERFACE: &str = include_str!("../cpp/interface.cpp");
/// Characters of a compiler's messages that are passed on.
const MOST_SAID: usize = 2000;

/// Flags for the headers, the interface and the program: a precompiled header is read only with the flags it was made with.
/// Names stay inside a library, so that models of different versions of Stan do not mix in one process.
const FLAGS: [&str; 10] = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-w",
    "-DBOOST_DISABLE_ASSERTS",
    "-DBOOST_PHOENIX_NO_VARIADIC_EXPRESSION",
    "-DSTAN_THREADS",
    "-D_REENTRANT",
];

/// A library, and how it came about.
#[derive(Debug)]
pub struct Compiled {
    /// The library.
    pub library: Arc<StanLibrary>,
    /// What stanc remarks about the program.
    pub remarks: String,
    /// The time that compiling took.
    pub took: Duration,
}

/// What is to be loaded.
#[derive(Clone, Copy, Debug)]
pub enum StanSource<'a> {
    /// A file: a program, or a library.
    File(&'a Path),
    /// The text of a program.
    Code(&'a str),
}

/// The name, in messages and in the compiled code, of a program that is in no file.
pub const CODE_NAME: &str = "model.stan";

/// How to compile.
pub struct Compiling<'a> {
    /// Hears what takes long.
    pub tell: &'a mut dyn FnMut(&str),
    /// The folder of the package `httpstan` of the Python that runs, which then stands in for that of a virtual environment.
    pub httpstan: Option<&'a Path>,
    /// Ends compilers at once. Without it they share the signals of the terminal.
    pub cancel: Option<Cancel>,
}

/// Loads a library, or compiles a program if it is not compiled yet; `tell` hears what takes long.
pub fn load(file: &Path, tell: &mut dyn FnMut(&str)) -> Result<Compiled, Error> {
    Compiling::new(tell).load(StanSource::File(file))
}

/// The library of a program and the remarks of stanc. Compiles it into `folder` if it is not there.
pub fn compile(file: &Path, folder: &Path, tell: &mut dyn FnMut(&str)) -> Result<(PathBuf, String), Error> {
    Compiling::new(tell).program(file, file, folder)
}

impl<'a> Compiling<'a> {
    /// With the tools on the machine.
    pub fn new(tell: &'a mut dyn FnMut(&str)) -> Self {
        Self { tell, httpstan: None, cancel: None }
    }

    /// Loads a library, or compiles a program if it is not compiled yet.
    pub fn load(&mut self, source: StanSource<'_>) -> Result<Compiled, Error> {
        let began = Instant::now();
        let (path, remarks) = match source {
            StanSource::Code(text) => self.code(text, &cache::folder())?,
            StanSource::File(file) => match file.extension().and_then(OsStr::to_str).unwrap_or_default() {
                "stan" => self.program(file, file, &cache::folder())?,
                "so" | "dylib" | "dll" => (file.to_owned(), String::new()),
                _ => return Err(Error::NotStan { file: file.to_owned() }),
            },
        };
        let library = StanLibrary::load(&path)?;
        Ok(Compiled { library, remarks, took: began.elapsed() })
    }

    /// The library of the program `text`, and the remarks of stanc.
    fn code(&mut self, text: &str, folder: &Path) -> Result<(PathBuf, String), Error> {
        // stanc reads files only.
        let place = new_folder()?;
        let file = place.join(CODE_NAME);
        let written = fs::write(&file, text).map_err(|source| Error::Write { file: file.clone(), source });
        let compiled = written.and_then(|()| self.program(&file, Path::new(CODE_NAME), folder));
        // What cannot be removed is small, and in a folder that systems clean.
        let _ = fs::remove_dir_all(&place);
        compiled
    }

    /// The library of the program in `file`, and the remarks of stanc. `shown` stands for the file in messages.
    fn program(&mut self, file: &Path, shown: &Path, folder: &Path) -> Result<(PathBuf, String), Error> {
        // So that a missing file is not an error of stanc.
        fs::metadata(file).map_err(|source| Error::Read { file: shown.to_owned(), source })?;
        let tools = Toolchain::find_with(shown, self.httpstan)?;
        let cancel = self.cancel.clone();
        let (code, remarks) = translate(file, shown, &tools, cancel.as_ref())?;
        let compiler = Compiler::find(shown)?;
        let build = Build { shown, tools: &tools, compiler: &compiler, cancel: cancel.as_ref() };
        let toolchain = key(&[HEADER, INTERFACE, &tools.identity(), &compiler.version, &build.flags().join(" ")]);
        let name = format!("{}-{}.so", program_name(file), key(&[&toolchain, &code]));
        let library = cache::once(folder, &name, cancel.as_ref(), |library| {
            let headers = cache::once(folder, &format!("headers-{toolchain}"), cancel.as_ref(), |headers| {
                (self.tell)("compiling Stan's headers, once: about a minute");
                build.headers(headers)
            })?;
            (self.tell)(&format!("compiling {} with {}", shown.display(), tools.name));
            build.program(&code, &headers, library)
        })?;
        Ok((library, remarks))
    }
}

/// A new folder for temporary files.
fn new_folder() -> Result<PathBuf, Error> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = std::env::temp_dir().join(format!("natmix-stan-{}-{number}", std::process::id()));
        match fs::create_dir(&place) {
            Ok(()) => return Ok(place),
            // Of an earlier process that had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::Write { file: place, source }),
        }
    }
}

/// A checksum of all parts and of where each ends.
fn key(parts: &[&str]) -> String {
    let mut checksum = Checksum::default();
    for part in parts {
        checksum.update(&part.len().to_le_bytes());
        checksum.update(part.as_bytes());
    }
    checksum.text()
}

/// The program's name as an identifier.
fn program_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let safe: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    if safe.starts_with(|c: char| c.is_ascii_alphabetic()) { safe } else { format!("m{safe}") }
}

/// The C++ code of a program, and remarks on it.
fn translate(file: &Path, shown: &Path, tools: &Toolchain, cancel: Option<&Cancel>) -> Result<(String, String), Error> {
    // A program without a folder is in this one.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let run = |source| Error::Run { command: tools.stanc.clone(), source };
    let mut command = Command::new(std::path::absolute(&tools.stanc).map_err(run)?);
    // The code contains the arguments: without the folder among them, a copy of a program is not compiled again.
    command
        .current_dir(folder)
        .arg(format!("--name={}_model", program_name(file)))
        // Without a place of its own the code would be written beside the program, too.
        .args(["--include-paths=.", "--print-cpp", "--o=/dev/null"])
        .arg(file.file_name().unwrap_or_default());
    let out = output(&mut command, cancel)?;
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    match out.status.success() {
        true => Ok((String::from_utf8_lossy(&out.stdout).into_owned(), said)),
        false => Err(match missing(&said) {
            Some((included, place)) => Error::Include {
                file: shown.to_owned(),
                included: included.to_owned(),
                looked: match file == shown {
                    true => "files are included from the folder of the program",
                    false => "only a program that is a file itself can include files",
                },
                place: place.to_owned(),
            },
            None => Error::Syntax { file: shown.to_owned(), message: said },
        }),
    }
}

struct Build<'a> {
    shown: &'a Path,
    tools: &'a Toolchain,
    compiler: &'a Compiler,
    cancel: Option<&'a Cancel>,
}

impl Build<'_> {
    fn flags(&self) -> Vec<&'static str> {
        let mut flags = FLAGS.to_vec();
        flags.extend(&self.tools.flags);
        if !self.compiler.is_clang() {
            // Otherwise some variables of a model would be those of the model that was loaded first.
            flags.push("-fno-gnu-unique");
        }
        flags
    }

    /// Precompiles headers and compiles the interface into a new folder.
    fn headers(&self, folder: &Path) -> Result<(), Error> {
        let put = |name: &str, text: &str| -> Result<PathBuf, Error> {
            let path = folder.join(name);
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
            written.map_err(|source| Error::Cache { folder: folder.to_owned(), source })?;
            Ok(path)
        };
        let (header, interface) = (put(HEADER_NAME, HEADER)?, put("interface.cpp", INTERFACE)?);
        let ending = if self.compiler.is_clang() { "pch" } else { "gch" };
        let precompiled = folder.join(format!("{HEADER_NAME}.{ending}"));
        self.run(|command| command.args(["-x", "c++-header"]).arg(&header).arg("-o").arg(&precompiled))?;
        self.run(|command| {
            command.arg("-I").arg(folder).arg("-c").arg(&interface).arg("-o").arg(folder.join("interface.o"))
        })
    }

    /// Compiles and links a program.
    fn program(&self, code: &str, headers: &Path, library: &Path) -> Result<(), Error> {
        let beside = |ending: &str| {
            let mut path = library.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        };
        let (source, object) = (beside(".cpp"), beside(".o"));
        let built = fs::write(&source, code)
            .map_err(|error| Error::Cache { folder: source.clone(), source: error })
            .and_then(|()| {
                let header = headers.join(HEADER_NAME);
                self.run(|command| command.arg("-include").arg(&header).arg("-c").arg(&source).arg("-o").arg(&object))?;
                self.run(|command| {
                    command.arg("-shared").arg("-o").arg(library).arg(&object).arg(headers.join("interface.o"));
                    command.args(&self.tools.libraries);
                    let folders: Vec<&Path> =
                        self.tools.libraries.iter().filter_map(|library| library.parent()).collect();
                    if let Some(folder) = folders.last() {
                        let mut place = OsStr::new("-Wl,-rpath,").to_owned();
                        place.push(folder);
                        command.arg(place);
                    }
                    command
                })
            });
        for file in [&source, &object] {
            // What is left is only of use for looking into it.
            let _ = fs::remove_file(file);
        }
        built
    }

    /// Runs the C++ compiler with the common flags.
    fn run(&self, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Result<(), Error> {
        let mut command = self.compiler.command();
        command.args(self.flags());
        for folder in &self.tools.includes {
            command.arg("-I").arg(folder);
        }
        let out = output(arguments(&mut command), self.cancel)?;
        if out.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr);
        let said: String = said.trim().chars().take(MOST_SAID).collect();
        Err(Error::Compile { file: self.shown.to_owned(), compiler: self.compiler.version.clone(), message: said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_identifiers() {
        for (file, name) in
            [("a/eight schools.stan", "eight_schools"), ("8.stan", "m8"), ("ü.stan", "m_"), ("x.y.stan", "x_y")]
        {
            assert_eq!(program_name(Path::new(file)), name);
        }
    }

    #[test]
    fn every_part_changes_the_key() {
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
    }

    #[test]
    fn other_files_are_refused() {
        let message = load(Path::new("model.txt"), &mut |_| {}).unwrap_err().to_string();
        assert!(message.contains("neither a Stan program"), "{message}");
        let message = load(Path::new("/nowhere/model.stan"), &mut |_| {}).unwrap_err().to_string();
        assert_eq!(message, "cannot read /nowhere/model.stan");
        let message = load(Path::new("/nowhere/model.so"), &mut |_| {}).unwrap_err().to_string();
        assert_eq!(message, "cannot read /nowhere/model.so");
    }
}
