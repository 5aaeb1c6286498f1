//! Files that are written completely or not at all: assembled next to their final place, and moved there when complete.

mod lock;
mod publish;

pub use publish::{Scope, settle};

use crate::Error;
use crate::record::files;
use lock::FolderLock;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder of results, opened before the work starts so that an unwritable place is reported at once.
///
/// New files are assembled in a hidden folder inside it, the stage; existing files stay unchanged until
/// [`OutputFolder::publish`]. Other processes are refused as long as the folder is open.
#[derive(Debug)]
pub struct OutputFolder {
    dir: PathBuf,
    stage: PathBuf,
    /// Whether the folder was created here, and is to be removed on an error.
    created: bool,
    lock: FolderLock,
}

impl OutputFolder {
    /// Opens `dir`, with new files kept under `stage` until they are complete. What an earlier, killed run left there
    /// is removed unless `keep`; results that it had begun to publish are completed first.
    pub fn open(dir: &Path, stage: &str, keep: bool) -> Result<Self, Error> {
        let created = !dir.exists();
        let create = |path: &Path| fs::create_dir_all(path).map_err(Error::io(format!("create {}", dir.display())));
        create(dir)?;
        let lock = FolderLock::take(dir)?;
        publish::settle_locked(dir)?;
        let stage = dir.join(stage);
        if !keep {
            let _ = fs::remove_dir_all(&stage);
        }
        create(&stage)?;
        Ok(Self { dir: dir.to_owned(), stage, created, lock })
    }

    /// Whether another process has this folder open.
    pub fn is_open(dir: &Path) -> bool {
        FolderLock::is_held(dir)
    }

    /// The folder in which new files are assembled.
    pub fn stage(&self) -> &Path {
        &self.stage
    }

    /// The path of a finished file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The path of a file that is not finished.
    pub fn staged(&self, name: &str) -> PathBuf {
        self.stage.join(name)
    }

    /// Removes what a failed run has written; earlier files stay.
    pub fn discard(self) {
        if publish::is_complete(&self.stage) {
            return;
        }
        let _ = fs::remove_dir_all(&self.stage);
        let Self { dir, created, lock, .. } = self;
        drop(lock);
        if created {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Removes what a failed run has written, but for what it takes to resume it.
    pub fn keep_checkpoint(self) {
        if publish::is_complete(&self.stage) {
            return;
        }
        for name in files::RESULTS {
            if name != files::TRACE && !files::CHECKPOINTS.contains(&name) {
                let path = self.staged(name);
                let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            }
        }
    }

    /// Moves all new files to their final place, at once.
    pub fn publish(&mut self, scope: Scope) -> Result<(), Error> {
        let done = publish::publish(&self.dir, &self.stage, scope, &mut self.lock);
        done.map_err(Error::io(format!("write in {}", self.dir.display())))
    }
}

/// Writes one file through `fill`; a file of that name is replaced only when the new one is complete.
pub fn write_whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<(), Error> {
    // A device or a pipe cannot be replaced, and cannot be left half-written.
    let special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = if special { path.to_owned() } else { PathBuf::from(part) };
    let written = File::create(&part).and_then(|file| {
        let mut file = BufWriter::new(file);
        fill(&mut file)?;
        file.flush()
    });
    let done = written.and_then(|()| if special { Ok(()) } else { fs::rename(&part, path) });
    if done.is_err() && !special {
        let _ = fs::remove_file(&part);
    }
    done.map_err(Error::io(format!("write {}", path.display())))
}

#[cfg(test)]
mod tests;
