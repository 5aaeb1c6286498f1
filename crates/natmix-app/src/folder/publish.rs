//! How new results replace old ones: all at once, so that whoever is killed at any moment leaves the old or the new ones.
//!
//! New files are complete, and on the disk, in a stage: a hidden folder inside the output folder. A journal, written to
//! the stage last, says that they are, and which of them to keep. From then on the new results count:
//!
//! - Where the system can exchange two folders in one step (Linux), the stage is moved beside the output folder, files that
//!   are not ours are linked into it, and the two are exchanged; then the old folder is removed.
//! - Elsewhere, or where the folder cannot be exchanged, files are moved from the stage to their places one by one.
//!
//! Every step can be repeated: [`settle`] completes what a killed process has begun.

use super::lock::{FolderLock, LOCK};
use crate::Error;
use crate::record::files;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Says that a stage is complete. After an exchange it is in the output folder until the old one is gone.
const JOURNAL: &str = ".journal.json";
/// A folder that makes room for a new one.
const ASIDE: &str = ".old-";
/// Threads that wait for the disk, each for another file.
const WAITING: usize = 8;
/// Bytes of their stacks.
const WAITING_STACK: usize = 64 << 10;

/// What is to become of the files of a fit, by name.
#[derive(Debug, Serialize, Deserialize)]
struct Journal {
    /// To be moved from the stage to the output folder.
    publish: Vec<String>,
    /// To be removed from the output folder: results of an earlier fit.
    remove: Vec<String>,
}

/// Which files of a stage are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All results of a fit, in place of all earlier ones. Checkpoints are dropped.
    Finished,
    /// The same with the checkpoint, so that the fit can be resumed.
    Interrupted,
    /// What the stage has; other results stay.
    Page,
}

/// Publishes what is in `stage`, and removes the stage.
pub(super) fn publish(dir: &Path, stage: &Path, scope: Scope, lock: &mut FolderLock) -> io::Result<()> {
    let dropped = |name: &str| scope == Scope::Finished && files::CHECKPOINTS.contains(&name);
    let (publish, other): (Vec<&str>, Vec<&str>) =
        files::RESULTS.iter().partition(|name| !dropped(name) && stage.join(name).exists());
    let own = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let remove = if scope == Scope::Page { Vec::new() } else { other };
    let journal = Journal { publish: own(publish), remove: own(remove) };
    sync_all(stage)?;
    let text = serde_json::to_string(&journal)?;
    let part = stage.join(".journal.part");
    fs::write(&part, text)?;
    sync(&part)?;
    fs::rename(&part, stage.join(JOURNAL))?;
    sync(stage)?;
    // From here on the new results are safe.
    if scope != Scope::Page && exchange(dir, stage, &journal, lock)? {
        return Ok(());
    }
    complete(dir, stage)
}

/// Completes what a killed process has begun to publish in `dir`. Nothing is done while another process uses it.
pub fn settle(dir: &Path) -> Result<(), Error> {
    let begun = stages(dir).iter().any(|stage| is_complete(stage)) || dir.join(JOURNAL).exists();
    if !begun && !twin_of(dir).is_some_and(|twin| is_complete(&twin)) {
        return Ok(());
    }
    match FolderLock::take(dir) {
        Ok(_lock) => settle_locked(dir),
        Err(_) => Ok(()),
    }
}

/// Does the same for whoever holds the lock.
pub(super) fn settle_locked(dir: &Path) -> Result<(), Error> {
    let settle = || -> io::Result<()> {
        if let Some(twin) = twin_of(dir) {
            if is_complete(&twin) {
                // Killed just before the exchange.
                fs::rename(&twin, dir.join(files::STAGE))?;
            } else if dir.join(JOURNAL).exists() {
                remove_exchanged(dir, &twin)?;
            }
        }
        for stage in stages(dir) {
            if is_complete(&stage) {
                complete(dir, &stage)?;
            }
        }
        Ok(())
    };
    settle().map_err(Error::io(format!("complete the results in {}", dir.display())))
}

/// Whether the results in a stage are complete: they count, even if they could not be moved to their places yet.
pub(super) fn is_complete(stage: &Path) -> bool {
    stage.join(JOURNAL).exists()
}

fn stages(dir: &Path) -> [PathBuf; 2] {
    [files::STAGE, files::PAGE_STAGE].map(|name| dir.join(name))
}

/// Moves the files of a complete stage to their places, one by one.
fn complete(dir: &Path, stage: &Path) -> io::Result<()> {
    let journal: Journal = serde_json::from_slice(&fs::read(stage.join(JOURNAL))?)?;
    for name in &journal.publish {
        let (entry, place, aside) = (stage.join(name), dir.join(name), stage.join(format!("{ASIDE}{name}")));
        if !entry.exists() {
            continue;
        }
        // A folder cannot be renamed onto a non-empty one: the old one is moved aside first.
        if place.exists() && (place.is_dir() || entry.is_dir()) {
            remove(&aside)?;
            fs::rename(&place, &aside)?;
        }
        fs::rename(entry, place)?;
    }
    for name in &journal.remove {
        remove(&dir.join(name))?;
    }
    sync(dir)?;
    // The journal goes last: until then, all of this is repeated after a crash.
    for entry in fs::read_dir(stage)? {
        let entry = entry?;
        if entry.file_name() != JOURNAL {
            remove(&entry.path())?;
        }
    }
    fs::remove_file(stage.join(JOURNAL))?;
    fs::remove_dir(stage)
}

/// Exchanges the output folder with the complete stage, if that is possible here.
fn exchange(dir: &Path, stage: &Path, journal: &Journal, lock: &mut FolderLock) -> io::Result<bool> {
    let Some(twin) = twin_of(dir).filter(|twin| !twin.exists() && may_be_exchanged(dir, stage)) else {
        return Ok(false);
    };
    for entry in fs::read_dir(stage)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != JOURNAL && !journal.publish.iter().any(|kept| name == kept.as_str()) {
            remove(&entry.path())?;
        }
    }
    if fs::rename(stage, &twin).is_err() {
        // The parent folder is not ours to write to.
        return Ok(false);
    }
    let prepared = || -> Result<FolderLock, Error> {
        let io = |error| Error::io(String::new())(error);
        fs::set_permissions(&twin, fs::metadata(dir).map_err(io)?.permissions()).map_err(io)?;
        for name in others(dir).map_err(io)? {
            fs::hard_link(dir.join(&name), twin.join(&name)).map_err(io)?;
        }
        // Whoever comes next finds a locked folder before and after.
        let own = FolderLock::take(&twin)?;
        // The folder itself, if the path is a link to it.
        swap(&twin, &fs::canonicalize(dir).map_err(io)?).map_err(io)?;
        Ok(own)
    };
    match prepared() {
        Ok(mut own) => {
            lock.exchange(&mut own);
            drop(own);
            remove_exchanged(dir, &twin)?;
            Ok(true)
        }
        Err(_) => {
            fs::rename(&twin, stage)?;
            Ok(false)
        }
    }
}

/// Whether the folder can be replaced without anybody noticing: a working directory, a mount point or the folder of another
/// user cannot, nor one with folders that are not ours, which cannot be linked.
fn may_be_exchanged(dir: &Path, stage: &Path) -> bool {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    let here = std::env::current_dir().ok().and_then(|here| whole(&here));
    let outside = matches!((here, whole(dir)), (Some(here), Some(dir)) if !here.starts_with(&dir));
    let linkable = |name: &std::ffi::OsString| dir.join(name).symlink_metadata().is_ok_and(|about| about.is_file());
    outside && same_owner(dir, stage) && others(dir).is_ok_and(|names| names.iter().all(linkable))
}

#[cfg(unix)]
fn same_owner(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| fs::metadata(path).ok().map(|about| (about.uid(), about.gid(), about.dev()));
    owner(a).is_some_and(|a| Some(a) == owner(b))
}

#[cfg(not(unix))]
fn same_owner(_: &Path, _: &Path) -> bool {
    false
}

/// Exchanges two folders in one step.
#[cfg(target_os = "linux")]
fn swap(a: &Path, b: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn swap(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// After an exchange: removes the old folder, which is at `twin` now, and the journal.
fn remove_exchanged(dir: &Path, twin: &Path) -> io::Result<()> {
    if twin.exists() {
        // Files that somebody added at the last moment.
        for name in others(twin)? {
            if dir.join(&name).symlink_metadata().is_err() {
                fs::rename(twin.join(&name), dir.join(&name))?;
            }
        }
        fs::remove_dir_all(twin)?;
    }
    if let Some(parent) = twin.parent() {
        sync(parent)?;
    }
    fs::remove_file(dir.join(JOURNAL))
}

/// Where the folder is prepared that is exchanged with `dir`: beside it.
fn twin_of(dir: &Path) -> Option<PathBuf> {
    let dir = fs::canonicalize(dir).ok()?;
    let mut name = std::ffi::OsString::from(".");
    name.push(dir.file_name()?);
    name.push(".natmix");
    Some(dir.parent()?.join(name))
}

/// Names in a folder that are not ours.
fn others(dir: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter(|name| !is_ours(name)).collect())
}

fn is_ours(name: &OsStr) -> bool {
    let hidden = [LOCK, JOURNAL, files::STAGE, files::PAGE_STAGE];
    files::RESULTS.iter().chain(&hidden).any(|ours| name == *ours)
}

/// Removes a file or a folder, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Waits until a file, or the names in a folder, are on the disk; not every system supports that for folders.
fn sync(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        let _ = File::open(path).and_then(|folder| folder.sync_all());
        return Ok(());
    }
    File::open(path)?.sync_all()
}

/// Waits until everything in a folder is on the disk.
fn sync_all(dir: &Path) -> io::Result<()> {
    let (mut paths, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { folders.push(entry.path()) } else { paths.push(entry.path()) }
        }
        paths.push(folder);
    }
    let share = paths.len().div_ceil(WAITING).max(1);
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for paths in paths.chunks(share) {
            let sync_these = move || paths.iter().try_for_each(|path| sync(path));
            // Where memory is scarce there may be no room for another thread.
            match std::thread::Builder::new().stack_size(WAITING_STACK).spawn_scoped(scope, sync_these) {
                Ok(thread) => waiting.push(thread),
                Err(_) => sync_these()?,
            }
        }
        waiting.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })
}
