//! Files that are written completely or not at all: assembled next to their final place, and moved there when complete.

use crate::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder of results, opened before the work starts so that an unwritable place is reported at once.
///
/// New files are assembled in a hidden folder inside it; existing files stay unchanged until [`OutputFolder::publish`].
pub struct OutputFolder {
    dir: PathBuf,
    stage: PathBuf,
    /// Whether the folder was created here, and is to be removed on an error.
    created: bool,
}

impl OutputFolder {
    /// Opens `dir`, with new files kept under `stage` until they are complete. What an earlier, killed run left there
    /// is removed unless `keep`.
    pub fn open(dir: &Path, stage: &str, keep: bool) -> Result<Self, Error> {
        let created = !dir.exists();
        let stage = dir.join(stage);
        if !keep {
            let _ = fs::remove_dir_all(&stage);
        }
        fs::create_dir_all(&stage).map_err(Error::io(format!("create {}", dir.display())))?;
        Ok(Self { dir: dir.to_owned(), stage, created })
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
    pub fn discard(&self) {
        let _ = fs::remove_dir_all(&self.stage);
        if self.created {
            let _ = fs::remove_dir(&self.dir);
        }
    }

    /// Moves all new files to their final place.
    pub fn publish(&self) -> Result<(), Error> {
        let moved = || -> std::io::Result<()> {
            for entry in fs::read_dir(&self.stage)? {
                let (entry, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
                let place = self.dir.join(&name);
                // A folder cannot be renamed onto a non-empty one: the old one is moved aside first.
                if place.is_dir() {
                    let mut aside = std::ffi::OsString::from(".old-");
                    aside.push(&name);
                    let aside = self.dir.join(aside);
                    let _ = fs::remove_dir_all(&aside);
                    fs::rename(&place, &aside)?;
                    fs::rename(&entry, &place)?;
                    fs::remove_dir_all(&aside)?;
                } else {
                    fs::rename(entry, place)?;
                }
            }
            fs::remove_dir(&self.stage)
        };
        moved().map_err(Error::io(format!("write in {}", self.dir.display())))
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
mod tests {
    use super::*;

    #[test]
    fn old_files_stay_until_new_ones_are_complete() {
        let dir = std::env::temp_dir().join(format!("natmix-folder-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let fill = |text: &str| {
            let folder = OutputFolder::open(&dir, ".part", false).unwrap();
            fs::write(folder.staged("a"), text).unwrap();
            fs::create_dir(folder.staged("b")).unwrap();
            fs::write(folder.staged("b/c"), text).unwrap();
            folder
        };
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        fill("first").publish().unwrap();
        let second = fill("second");
        assert_eq!((read("a"), read("b/c")), ("first".into(), "first".into()));
        second.discard();
        assert_eq!((read("a"), read("b/c")), ("first".into(), "first".into()));
        fill("third").publish().unwrap();
        assert_eq!((read("a"), read("b/c")), ("third".into(), "third".into()));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let path = std::env::temp_dir().join(format!("natmix-whole-{}", std::process::id()));
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let failed = write_whole(&path, |file| {
            file.write_all(b"new")?;
            Err(std::io::Error::other("no more"))
        });
        assert!(std::error::Error::source(&failed.unwrap_err()).unwrap().to_string().contains("no more"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_whole(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_file(path).unwrap();
    }
}
