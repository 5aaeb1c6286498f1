//! Where compiled models are stored: complete or not at all, also when several processes compile at once.

use crate::Error;
use natmix::observe::Cancel;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two looks at whether another process has finished.
const LOOK: Duration = Duration::from_millis(50);

/// The folder of compiled models: `stan` in `NATMIX_CACHE` or, without that, in `natmix` in the user's cache folder.
pub fn folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let user = || variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("natmix"));
    let home = || variable("HOME").or_else(|| variable("USERPROFILE")).map(|path| path.join(".cache").join("natmix"));
    variable("NATMIX_CACHE")
        .or_else(user)
        .or_else(home)
        .unwrap_or_else(|| std::env::temp_dir().join("natmix"))
        .join("stan")
}

/// The file or folder `name` in `folder`, made by `make` under another name if it is not there yet. While one process makes it,
/// others that need it wait, unless they are cancelled.
pub fn once(
    folder: &Path,
    name: &str,
    cancel: Option<&Cancel>,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    if path.exists() {
        return Ok(path);
    }
    let fail = |source: io::Error| Error::Cache { folder: folder.to_owned(), source };
    let locks = folder.join("locks");
    fs::create_dir_all(&locks).map_err(fail)?;
    let lock = File::options().create(true).append(true).open(locks.join(name)).map_err(fail)?;
    // Released when the file is closed, also if the process is killed.
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(fail(error)),
            Err(TryLockError::WouldBlock) if cancel.is_some_and(Cancel::is_cancelled) => return Err(Error::Cancelled),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
    if path.exists() {
        return Ok(path);
    }
    let part = folder.join(format!("{name}.part"));
    // A killed process may have left one.
    remove(&part).map_err(fail)?;
    let made = make(&part).and_then(|()| fs::rename(&part, &path).map_err(fail));
    if made.is_err() {
        // Nothing more can be done about what cannot be removed.
        let _ = remove(&part);
    }
    made.map(|()| path)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn empty(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("natmix-stan-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn write(part: &Path) -> Result<(), Error> {
        fs::write(part, "x").map_err(|source| Error::Cache { folder: part.to_owned(), source })
    }

    #[test]
    fn things_are_made_once() {
        let folder = empty("once");
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |part: &Path| {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(30));
                        write(part)
                    };
                    assert_eq!(fs::read_to_string(once(&folder, "a", None, make).unwrap()).unwrap(), "x");
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn failures_leave_nothing_half_made() {
        let folder = empty("fail");
        let fail = |part: &Path| {
            write(part)?;
            Err(Error::NoParameters)
        };
        assert!(once(&folder, "a", None, fail).is_err());
        assert!(!folder.join("a").exists() && !folder.join("a.part").exists());
        fs::write(folder.join("a.part"), "left by a killed process").unwrap();
        assert_eq!(fs::read_to_string(once(&folder, "a", None, write).unwrap()).unwrap(), "x");
        assert!(!folder.join("a.part").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_waits_can_be_cancelled() {
        let folder = empty("wait");
        let cancel = Cancel::default();
        let slow = |part: &Path| {
            // The second one waits for this one, and is told not to.
            cancel.cancel();
            let waiting = once(&folder, "a", Some(&cancel), |_| panic!("both make it"));
            assert!(matches!(waiting, Err(Error::Cancelled)), "{waiting:?}");
            write(part)
        };
        once(&folder, "a", None, slow).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        // Below a file there can be no folder, whoever asks.
        let file = empty("file");
        fs::write(&file, "").unwrap();
        let error = once(&file.join("stan"), "a", None, write).unwrap_err();
        assert!(
            error.to_string().contains("NATMIX_CACHE") && error.to_string().contains("natmix-stan-file"),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
    }
}
