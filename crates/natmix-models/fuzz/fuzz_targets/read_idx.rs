//! Images and labels, plain or gzip, are refused or read as a table. The first two bytes say where the labels begin.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix_models::idx::ImageSet;

fuzz_target!(|bytes: &[u8]| {
    let [low, high, rest @ ..] = bytes else { return };
    let (images, labels) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
    let path = |what: &str| std::env::temp_dir().join(format!("natmix-fuzz-{what}-{}", std::process::id()));
    let paths = ["images", "labels"].map(path);
    std::fs::write(&paths[0], images).unwrap();
    std::fs::write(&paths[1], labels).unwrap();
    if let Ok(set) = ImageSet::read(&paths[0], &paths[1]) {
        let table = set.to_table();
        assert_eq!(table.values.len(), table.rows * table.names.len());
    }
});
