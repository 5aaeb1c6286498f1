//! Who has started this process, and where the MPI library is that goes with it.

use std::path::{Path, PathBuf};

/// The environment variable that names an MPI library that is not found by itself.
pub const VARIABLE: &str = "NATMIX_MPI";

/// Whose `mpirun` has started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// That of Open MPI.
    OpenMpi,
    /// That of MPICH and its relatives, or of Slurm in their place.
    Mpich,
}

/// What the launcher says about this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Who started it.
    pub launcher: Launcher,
    /// How many processes there are.
    pub ranks: usize,
    /// Which of them this one is.
    pub rank: usize,
}

/// What launchers tell each process: how many there are, and which of them it is.
const LAUNCHERS: [(Launcher, &str, &str); 2] =
    [(Launcher::OpenMpi, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), (Launcher::Mpich, "PMI_SIZE", "PMI_RANK")];

impl Launched {
    /// What is known from the environment; none if this process was started by itself.
    pub fn find() -> Option<Self> {
        Self::find_by(|name| std::env::var(name).ok())
    }

    fn find_by(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let number = |name: &str| variable(name)?.parse::<usize>().ok();
        LAUNCHERS.iter().find_map(|(launcher, ranks, rank)| {
            Some(Self { launcher: *launcher, ranks: number(ranks)?, rank: number(rank)? })
        })
    }
}

/// Names and paths of libraries that may be the launcher's, the likeliest first.
pub(crate) fn candidates(launcher: Launcher) -> Vec<PathBuf> {
    if let Some(given) = std::env::var_os(VARIABLE) {
        return vec![given.into()];
    }
    let names: &[&str] = match (launcher, cfg!(target_os = "macos")) {
        (Launcher::OpenMpi, false) => &["libmpi.so.40", "libmpi.so"],
        (Launcher::OpenMpi, true) => &["libmpi.40.dylib", "libmpi.dylib"],
        (Launcher::Mpich, false) => &["libmpich.so.12", "libmpi.so.12", "libmpi.so"],
        (Launcher::Mpich, true) => &["libmpi.12.dylib", "libmpi.dylib"],
    };
    // By the rules of the system, which an environment module has set up; otherwise beside the launcher.
    let mut all: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    for folder in beside_launcher(&std::env::var_os("PATH").unwrap_or_default()) {
        all.extend(names.iter().map(|name| folder.join(name)).filter(|path| path.exists()));
    }
    all
}

/// Folders of libraries that belong to the first launcher on the search path.
fn beside_launcher(path: &std::ffi::OsStr) -> Vec<PathBuf> {
    let launcher = std::env::split_paths(path)
        .flat_map(|folder| ["mpirun", "mpiexec"].map(|name| folder.join(name)))
        .find_map(|file| file.canonicalize().ok());
    let prefix = launcher.as_deref().and_then(Path::parent).and_then(Path::parent);
    prefix.map_or(Vec::new(), |prefix| ["lib", "lib64"].map(|folder| prefix.join(folder)).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_by_what_they_set() {
        let found = |set: &[(&str, &str)]| {
            Launched::find_by(|name| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned()))
        };
        let open_mpi = found(&[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMI_SIZE", "1")]);
        assert_eq!(open_mpi, Some(Launched { launcher: Launcher::OpenMpi, ranks: 4, rank: 3 }));
        let mpich = found(&[("PMI_SIZE", "2"), ("PMI_RANK", "0")]);
        assert_eq!(mpich, Some(Launched { launcher: Launcher::Mpich, ranks: 2, rank: 0 }));
        assert_eq!(found(&[("OMPI_COMM_WORLD_SIZE", "many"), ("OMPI_COMM_WORLD_RANK", "0")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn libraries_are_also_looked_for_beside_the_launcher() {
        let prefix = std::env::temp_dir().join(format!("natmix-mpi-find-{}", std::process::id()));
        std::fs::create_dir_all(prefix.join("bin")).unwrap();
        std::fs::write(prefix.join("bin/mpirun"), "").unwrap();
        let path = std::env::join_paths([prefix.join("nothing"), prefix.join("bin")]).unwrap();
        let real = prefix.canonicalize().unwrap();
        assert_eq!(beside_launcher(&path), [real.join("lib"), real.join("lib64")]);
        std::fs::remove_dir_all(&prefix).unwrap();
        assert_eq!(beside_launcher(&path), Vec::<PathBuf>::new());
    }
}
