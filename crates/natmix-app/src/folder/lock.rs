//! A lock on an output folder: two fits that write into the same one would mix their results.

use crate::Error;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// The file that is locked while a process writes into a folder. What a crash leaves of it is harmless: the system
/// releases the lock.
pub(super) const LOCK: &str = ".lock";

/// Attempts to lock a file that others remove at the same time.
const ATTEMPTS: usize = 1000;

/// A lock on a folder; released when dropped.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    file: File,
}

impl FolderLock {
    /// Locks `dir`, which must exist.
    pub fn take(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(LOCK);
        for _ in 0..ATTEMPTS {
            let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
            let file = open.map_err(Error::io(format!("write in {}", dir.display())))?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => break,
                // Without locks, as on some network file systems, a fit works all the same.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // The last owner may have removed the file between the two calls: then the lock protects nothing.
            if is_at(&file, &path) {
                return Ok(Self { path, file });
            }
        }
        let place = dir.display();
        Err(Error::Invalid(format!(
            "another fit is using the folder {place}: wait for its end, or choose another folder"
        )))
    }

    /// Whether another process has locked `dir`.
    pub fn is_held(dir: &Path) -> bool {
        let file = OpenOptions::new().write(true).open(dir.join(LOCK));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Exchanges two locks, after their folders were exchanged.
    pub fn exchange(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.file, &mut other.file);
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Removed while it is still locked: whoever opens the path from now on makes a file of its own.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let id = |about: &fs::Metadata| (about.dev(), about.ino());
        matches!((file.metadata(), fs::metadata(path)), (Ok(open), Ok(there)) if id(&open) == id(&there))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_at_a_time() {
        let dir = std::env::temp_dir().join(format!("natmix-lock-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // What a crash leaves does not lock anything.
        fs::write(dir.join(LOCK), "").unwrap();
        assert!(!FolderLock::is_held(&dir));
        let first = FolderLock::take(&dir).unwrap();
        assert!(FolderLock::is_held(&dir));
        let refused = FolderLock::take(&dir).unwrap_err().to_string();
        assert!(refused.contains("another fit is using the folder") && refused.contains("natmix-lock"), "{refused}");
        drop(first);
        assert!(!dir.join(LOCK).exists());
        // Many threads, each with the lock for a moment: never two of them.
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Ok(_lock) = FolderLock::take(&dir) {
                            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                            assert_eq!(inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst), 1);
                        }
                    }
                });
            }
        });
        fs::remove_dir_all(&dir).unwrap();
    }
}
