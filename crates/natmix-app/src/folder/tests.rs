//! Results replace earlier ones all at once, whatever happens in between.

use super::*;

/// A folder for one test.
fn place(test: &str) -> PathBuf {
    let parent = std::env::temp_dir().join(format!("natmix-folder-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&parent);
    fs::create_dir_all(&parent).unwrap();
    parent.join("fit")
}

/// A stage with results that all hold `text`.
fn stage(dir: &Path, text: &str) -> OutputFolder {
    let folder = OutputFolder::open(dir, files::STAGE, false).unwrap();
    fs::write(folder.staged(files::REPORT), text).unwrap();
    fs::write(folder.staged(files::CHECKPOINT), text).unwrap();
    fs::create_dir(folder.staged(files::FIGURES)).unwrap();
    fs::write(folder.staged("figures/elbo.svg"), text).unwrap();
    // What a killed writer leaves.
    fs::write(folder.staged(".natmix-1-2-3.tmp"), text).unwrap();
    folder
}

/// Asserts that the results are those with `text`, complete and alone but for the files of the user.
fn assert_results(dir: &Path, text: &str, others: &[&str]) {
    for name in [files::REPORT, "figures/elbo.svg"] {
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), text, "{name}");
    }
    let mut expected: Vec<&str> = [files::FIGURES, files::REPORT].into_iter().chain(others.iter().copied()).collect();
    expected.sort_unstable();
    assert_eq!(names(dir), expected);
    assert_eq!(names(dir.parent().unwrap()), ["fit"]);
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn old_files_stay_until_new_ones_are_complete() {
    let dir = place("stay");
    let publish = |mut folder: OutputFolder, scope| folder.publish(scope).unwrap();
    publish(stage(&dir, "first"), Scope::Finished);
    assert_results(&dir, "first", &[]);
    // Of a fit that had more files.
    fs::write(dir.join(files::FRAMES), "first").unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let second = stage(&dir, "second");
    let refused = OutputFolder::open(&dir, files::STAGE, false).unwrap_err().to_string();
    assert!(refused.contains("another fit is using the folder"), "{refused}");
    assert_eq!(fs::read_to_string(dir.join(files::REPORT)).unwrap(), "first");
    second.discard();
    assert_results(&dir, "first", &[files::FRAMES, "notes.txt"]);
    publish(stage(&dir, "third"), Scope::Finished);
    assert_results(&dir, "third", &["notes.txt"]);
    publish(stage(&dir, "fourth"), Scope::Interrupted);
    assert_results(&dir, "fourth", &["notes.txt", files::CHECKPOINT]);
    // A page alone leaves the other results as they are.
    let page = OutputFolder::open(&dir, files::PAGE_STAGE, false).unwrap();
    fs::write(page.staged(files::PAGE), "fourth").unwrap();
    publish(page, Scope::Page);
    assert_results(&dir, "fourth", &["notes.txt", files::CHECKPOINT, files::PAGE]);
    assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
    // Folders of the user cannot be linked: then files are moved one by one.
    fs::create_dir(dir.join("own")).unwrap();
    fs::write(dir.join("own/data"), "mine").unwrap();
    publish(stage(&dir, "fifth"), Scope::Finished);
    assert_results(&dir, "fifth", &["notes.txt", "own"]);
    assert_eq!(fs::read_to_string(dir.join("own/data")).unwrap(), "mine");
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
}

#[test]
fn what_a_killed_process_began_to_publish_is_completed() {
    let journal = r#"{"publish": ["report.json", "figures"], "remove": ["frames.json"]}"#;
    // How far it came: nothing moved; the report; the report, and the old figures out of the way; beside the folder, with
    // files of the user linked; exchanged.
    for step in 0..5 {
        let dir = place(&format!("killed-{step}"));
        let twin = dir.parent().unwrap().join(".fit.natmix");
        stage(&dir, "old").publish(Scope::Finished).unwrap();
        fs::write(dir.join(files::FRAMES), "old").unwrap();
        fs::write(dir.join("notes.txt"), "mine").unwrap();
        let folder = stage(&dir, "new");
        let part = folder.stage().to_owned();
        fs::write(part.join(".journal.json"), journal).unwrap();
        drop(folder);
        // The lock of a killed process.
        fs::write(dir.join(".lock"), "").unwrap();
        if step == 1 || step == 2 {
            fs::rename(part.join(files::REPORT), dir.join(files::REPORT)).unwrap();
        }
        if step == 2 {
            fs::rename(dir.join(files::FIGURES), part.join(".old-figures")).unwrap();
        }
        if step >= 3 {
            fs::remove_file(part.join(files::CHECKPOINT)).unwrap();
            fs::remove_file(part.join(".natmix-1-2-3.tmp")).unwrap();
            fs::rename(&part, &twin).unwrap();
            fs::hard_link(dir.join("notes.txt"), twin.join("notes.txt")).unwrap();
        }
        if step == 4 {
            let aside = dir.with_extension("aside");
            fs::rename(&dir, &aside).unwrap();
            fs::rename(&twin, &dir).unwrap();
            fs::rename(&aside, &twin).unwrap();
        }
        // Nothing is touched while another process holds the lock.
        let lock = FolderLock::take(&dir).unwrap();
        let before = names(&dir);
        settle(&dir).unwrap();
        assert_eq!(names(&dir), before);
        drop(lock);
        settle(&dir).unwrap();
        assert_results(&dir, "new", &["notes.txt"]);
        assert_eq!(fs::read_to_string(dir.join("notes.txt")).unwrap(), "mine");
        settle(&dir).unwrap();
        fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_the_folder_stays_one() {
    let dir = place("link");
    let link = dir.with_extension("link");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    stage(&link, "new").publish(Scope::Finished).unwrap();
    assert!(link.is_symlink());
    fs::remove_file(&link).unwrap();
    assert_results(&dir, "new", &[]);
    fs::remove_dir_all(dir.parent().unwrap()).unwrap();
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
