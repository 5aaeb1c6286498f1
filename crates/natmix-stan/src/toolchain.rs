//! The tools on the machine that make a library of a program: stanc, Stan's headers and libraries, and a C++ compiler.
//!
//! Looked for in this order: the folders that `BRIDGESTAN` and `CMDSTAN` name, those that their installers make in the home
//! folder, and the Python package `httpstan` of the Python that `NATMIX_PYTHON` names, of an active virtual environment (or of
//! the Python that runs), or of the first `python3` or `python` on `PATH`.

use crate::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Stan's tools.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// What they are, for messages.
    pub name: String,
    /// The compiler from Stan to C++.
    pub stanc: PathBuf,
    /// Folders of headers.
    pub includes: Vec<PathBuf>,
    /// Libraries to link with.
    pub libraries: Vec<PathBuf>,
    /// Further flags of the C++ compiler.
    pub flags: Vec<&'static str>,
}

/// A C++ compiler.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: Vec<OsString>,
    /// The first line that it says about itself.
    pub version: String,
}

/// Prints the folder of the package without importing it, which would take a second.
const FIND_HTTPSTAN: &str =
    "import importlib.util as u; s = u.find_spec('httpstan'); print(s.submodule_search_locations[0] if s else '')";

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl Toolchain {
    /// Finds tools for the program `file`. What the user has named is used or refused, never passed over.
    pub fn find(file: &Path) -> Result<Self, Error> {
        Self::find_with(file, None)
    }

    /// The same in a Python that runs: the folder of its package `httpstan` stands in for that of a virtual environment.
    pub fn find_with(file: &Path, httpstan: Option<&Path>) -> Result<Self, Error> {
        for name in ["BRIDGESTAN", "CMDSTAN"] {
            if let Some(folder) = variable(name) {
                return Self::of_tree(Path::new(&folder), name);
            }
        }
        if let Some(python) = variable("NATMIX_PYTHON") {
            let folder = httpstan_of(Path::new(&python)).ok_or_else(|| Error::Toolchain {
                origin: "NATMIX_PYTHON".into(),
                folder: python.clone().into(),
                missing: "package httpstan".into(),
                advice: "`pip install httpstan` there",
            })?;
            return Self::of_httpstan(&folder);
        }
        let home = variable("HOME").map(PathBuf::from);
        let installed = [(".bridgestan", "bridgestan-"), (".cmdstan", "cmdstan-")];
        let trees = installed.iter().filter_map(|(folder, prefix)| newest(&home.as_ref()?.join(folder), prefix));
        if let Some(tree) = trees.filter_map(|folder| Self::of_tree(&folder, "it").ok()).next() {
            return Ok(tree);
        }
        if let Some(folder) = httpstan {
            return Self::of_httpstan(folder);
        }
        let active = variable("VIRTUAL_ENV").map(|folder| Path::new(&folder).join("bin").join("python"));
        let pythons = active.into_iter().chain(["python3".into(), "python".into()]);
        match pythons.filter_map(|python| httpstan_of(&python)).next() {
            Some(folder) => Self::of_httpstan(&folder),
            None => Err(Error::NoToolchain { file: file.to_owned() }),
        }
    }

    /// The tools in a folder of CmdStan or BridgeStan, which have the same layout.
    pub fn of_tree(root: &Path, origin: &str) -> Result<Self, Error> {
        let advice = "build CmdStan (`make build`) or a first BridgeStan model there, or name another folder";
        let missing = |missing: &str| Error::Toolchain {
            origin: origin.to_owned(),
            folder: root.to_owned(),
            missing: missing.to_owned(),
            advice,
        };
        let stanc = [root.join("bin").join("stanc"), root.join("bin").join("stanc.exe")];
        let stanc = stanc.into_iter().find(|file| file.exists()).ok_or_else(|| missing("bin/stanc"))?;
        let stan = root.join("stan");
        let math = stan.join("lib").join("stan_math");
        let third_party = math.join("lib");
        let within = |folder: &Path, prefix: &str| newest(folder, prefix).ok_or_else(|| missing(&format!("{prefix}*")));
        let sundials = within(&third_party, "sundials_")?;
        let rapidjson = within(&stan.join("lib"), "rapidjson_").or_else(|_| within(&root.join("lib"), "rapidjson_"))?;
        let tbb = third_party.join("tbb");
        let includes = vec![
            stan.join("src"),
            math.clone(),
            within(&third_party, "eigen_")?,
            within(&third_party, "boost_")?,
            sundials.join("include"),
            sundials.join("src").join("sundials"),
            within(&third_party, "tbb_")?.join("include"),
            rapidjson,
        ];
        let libraries =
            libraries_in(&[sundials.join("lib"), tbb]).ok_or_else(|| missing("stan/lib/stan_math/lib/tbb/libtbb"))?;
        Ok(Self { name: format!("Stan in {}", root.display()), stanc, includes, libraries, flags: Vec::new() })
    }

    /// The tools in the Python package `httpstan`.
    pub fn of_httpstan(folder: &Path) -> Result<Self, Error> {
        let missing = |missing: &str| Error::Toolchain {
            origin: "the package httpstan".into(),
            folder: folder.to_owned(),
            missing: missing.to_owned(),
            advice: "install it again with pip",
        };
        let (stanc, include) = (folder.join("stanc"), folder.join("include"));
        for file in [&stanc, &include] {
            if !file.exists() {
                return Err(missing(&file.display().to_string()));
            }
        }
        let libraries = libraries_in(&[folder.join("lib")]).ok_or_else(|| missing("lib/libtbb"))?;
        // Its TBB was built for old systems.
        let flags = if cfg!(target_os = "linux") { vec!["-D_GLIBCXX_USE_CXX11_ABI=0"] } else { Vec::new() };
        Ok(Self { name: "httpstan".into(), stanc, includes: vec![include], libraries, flags })
    }

    /// What distinguishes these tools from others: versions and places.
    pub fn identity(&self) -> String {
        let stanc = Command::new(&self.stanc).arg("--version").output().map(|out| out.stdout).unwrap_or_default();
        let versions = ["stan/version.hpp", "stan/math/version.hpp"];
        let headers = self.includes.iter().flat_map(|folder| versions.map(|file| folder.join(file)));
        let headers: String = headers.filter_map(|file| fs::read_to_string(file).ok()).collect();
        let Self { includes, libraries, flags, .. } = self;
        format!("{}{headers}{includes:?}{libraries:?}{flags:?}", String::from_utf8_lossy(&stanc))
    }
}

/// The libraries of SUNDIALS in these folders and, behind them, TBB, without which nothing can be linked.
fn libraries_in(folders: &[PathBuf]) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folders {
        let files = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        found.extend(files.filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("libsundials_") && name.ends_with(".a")
        }));
    }
    found.sort();
    let names = ["libtbb.so", "libtbb.so.2", "libtbb.so.12", "libtbb.dylib"];
    let tbb = folders.iter().flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.exists())?;
    found.push(tbb);
    Some(found)
}

/// The last folder by name of those that begin with `prefix`; numbers in names count as numbers.
fn newest(folder: &Path, prefix: &str) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let number = |name: &String| -> Vec<u64> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    names.filter(|name| name.starts_with(prefix)).max_by_key(number).map(|name| folder.join(name))
}

/// The folder of the package `httpstan` of a Python, if there are both.
fn httpstan_of(python: &Path) -> Option<PathBuf> {
    // -P: a folder named httpstan that happens to lie here is not the package.
    let out = Command::new(python).args(["-P", "-c", FIND_HTTPSTAN]).output().ok()?;
    let folder = String::from_utf8(out.stdout).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| out.status.success() && folder.is_absolute())
}

impl Compiler {
    /// The compiler that `CXX` names, or the first of the usual ones.
    pub fn find(file: &Path) -> Result<Self, Error> {
        let chosen = variable("CXX").map(|command| command.to_string_lossy().into_owned());
        let tried =
            chosen.map_or_else(|| ["g++", "clang++", "c++"].map(str::to_owned).to_vec(), |command| vec![command]);
        let works = |command: &String| {
            let command: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
            let (program, arguments) = command.split_first()?;
            let out = Command::new(program).args(arguments).arg("--version").output().ok()?;
            let version = String::from_utf8_lossy(&out.stdout).lines().next()?.to_owned();
            out.status.success().then_some(Self { command, version })
        };
        tried.iter().find_map(works).ok_or_else(|| Error::NoCompiler { file: file.to_owned(), tried: tried.join(", ") })
    }

    /// A command that is ready for arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }

    /// Whether it is Clang, which names precompiled headers differently.
    pub fn is_clang(&self) -> bool {
        self.version.contains("clang")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken() {
        let folder = std::env::temp_dir().join(format!("natmix-stan-newest-{}", std::process::id()));
        for version in ["2.9.0", "2.36.1", "2.36.0"] {
            fs::create_dir_all(folder.join(format!("cmdstan-{version}"))).unwrap();
        }
        assert_eq!(newest(&folder, "cmdstan-"), Some(folder.join("cmdstan-2.36.1")));
        assert_eq!(newest(&folder, "other-"), None);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn incomplete_folders_are_refused_with_what_they_lack() {
        let folder = std::env::temp_dir().join(format!("natmix-stan-tree-{}", std::process::id()));
        fs::create_dir_all(folder.join("bin")).unwrap();
        let message = |folder: &Path| Toolchain::of_tree(folder, "CMDSTAN").unwrap_err().to_string();
        assert!(message(&folder).contains("CMDSTAN") && message(&folder).contains("bin/stanc"));
        fs::write(folder.join("bin/stanc"), "").unwrap();
        assert!(message(&folder).contains("sundials_*"), "{}", message(&folder));
        assert!(Toolchain::of_httpstan(&folder).unwrap_err().to_string().contains("stanc"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
