//! How much memory is available for a table, and how much was used.

use std::path::Path;

/// Share of the free memory that a table may take: reading and scoring it need some too.
const SHARE: f64 = 0.5;
/// Numbers take 8 bytes in memory and at least 2 in a file, their separator included.
const GROWTH: u64 = 4;
/// Most bytes of text that gzip usually packs into one byte.
const PACKED: u64 = 20;

/// Bytes that a table may take; `None` outside Linux.
pub fn room() -> Option<u64> {
    let free = available(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // A container may have less than its host.
    let read = |name: &str| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok();
    let limit = left(read("memory.max").as_deref(), read("memory.current").as_deref());
    Some((SHARE * free.min(limit) as f64) as u64)
}

/// Peak memory of this process in bytes since the last call; `None` outside Linux.
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let bytes = line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| 1024 * kilobytes);
    // Writing 5 resets the peak; where that is not permitted the old peak remains, which can only be too high.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    bytes
}

/// Whether the table in a file may be larger than `room`, going by the size of the file.
pub fn may_exceed(path: &Path, room: u64) -> bool {
    let Ok(files) = natmix_models::source::files(path) else { return false };
    let bytes: u64 = files.iter().filter_map(|file| Some(std::fs::metadata(file).ok()?.len())).sum();
    let packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    bytes.saturating_mul(GROWTH * if packed { PACKED } else { 1 }) > room
}

/// Available bytes according to `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| 1024 * kilobytes)
}

/// Bytes left within a control group's limit; `u64::MAX` if it has none.
fn left(most: Option<&str>, used: Option<&str>) -> u64 {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u64>().ok());
    number(most).map_or(u64::MAX, |most| most.saturating_sub(number(used).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_and_cgroup_limits_are_parsed() {
        let meminfo = "MemTotal:       24689764 kB\nMemFree:          535096 kB\nMemAvailable:   24101000 kB\n";
        assert_eq!(available(meminfo), Some(24_101_000 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
        assert_eq!(left(Some("max\n"), Some("12345\n")), u64::MAX);
        assert_eq!(left(Some("1000\n"), Some("400\n")), 600);
        assert_eq!(left(Some("1000\n"), Some("4000\n")), 0);
        assert_eq!(left(None, None), u64::MAX);
    }

    #[test]
    fn a_file_is_judged_by_its_size() {
        let path = std::env::temp_dir().join(format!("natmix-memory-{}.csv", std::process::id()));
        std::fs::write(&path, [b'1'; 1000]).unwrap();
        assert!(may_exceed(&path, 3999) && !may_exceed(&path, 4000));
        assert!(!may_exceed(Path::new("not there.csv"), 0));
        std::fs::remove_file(&path).unwrap();
    }
}
