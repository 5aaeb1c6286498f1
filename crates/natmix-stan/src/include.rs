//! The files that a program includes. stanc reads them itself, from the folder of the program; here they are found again, to
//! notice when they change and to say which is missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names in the `#include` lines of a program, without quotes.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.split_once("#include")?.1.trim_start();
        let end = |stop: &[char]| rest[1..].split(stop).next();
        match rest.chars().next()? {
            '"' => end(&['"']),
            '\'' => end(&['\'']),
            '<' => end(&['>']),
            _ => rest.split_whitespace().next(),
        }
    })
}

/// The texts of all files that the program `text` in `folder` includes, directly or through others, each once. All names are
/// relative to that folder. What is not there is left out: stanc has refused it, or it stands in a comment.
pub fn included(text: &str, folder: &Path) -> Vec<String> {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut found: Vec<String> = Vec::new();
    let mut next = 0;
    let mut text = text;
    loop {
        let new: BTreeSet<String> = names(text).filter(|name| !known.contains(*name)).map(str::to_owned).collect();
        found.extend(new.iter().filter_map(|name| fs::read_to_string(folder.join(name)).ok()));
        known.extend(new);
        let Some(another) = found.get(next) else { return found };
        text = another;
        next += 1;
    }
}

/// The file that stanc has not found, and where it was included, from what it says about a program.
pub(crate) fn missing(said: &str) -> Option<(&str, &str)> {
    let (place, rest) = said.split_once("Could not find include file '")?;
    Some((rest.split_once('\'')?.0, place.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_quotes() {
        let text =
            "functions {\n  #include f.stan\n#include \"a b.stan\" // c\n#include <g.stan>\n#include\n#include \"\n}";
        assert_eq!(names(text).collect::<Vec<_>>(), ["f.stan", "a b.stan", "g.stan", ""]);
    }

    #[test]
    fn files_are_found_once_and_through_others() {
        let folder = std::env::temp_dir().join(format!("natmix-stan-include-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/f.stan"), "f\n#include g.stan\n#include sub/f.stan").unwrap();
        fs::write(folder.join("g.stan"), "g").unwrap();
        let found = included("#include sub/f.stan\n#include sub/f.stan\n// #include none.stan", &folder);
        assert_eq!(found, ["f\n#include g.stan\n#include sub/f.stan", "g"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_stanc_misses_is_found_in_its_message() {
        let said =
            "Syntax error in 'a.stan', line 1:\n   1:  #include b.stan\n\nCould not find include file 'b.stan' in x.";
        assert_eq!(missing(said), Some(("b.stan", "Syntax error in 'a.stan', line 1:\n   1:  #include b.stan")));
        assert_eq!(missing("Syntax error"), None);
    }
}
