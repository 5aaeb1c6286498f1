//! A table, plain or gzip, is refused or read; read in blocks it is the same, and so are the rows that are stored on disk.
//!
//! The first byte of the input decides whether the rest is compressed, which columns are categorical, whether rows with missing
//! values are dropped, and the model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix_models::design::{Design, DesignOptions, OutcomeKind};
use natmix_models::table::{MissingRows, ReadOptions, Table, TableFile};
use natmix_models::Dataset;
use std::io::Write;

fuzz_target!(|bytes: &[u8]| {
    let Some((how, bytes)) = bytes.split_first() else { return };
    let path = std::env::temp_dir().join(format!("natmix-fuzz-table-{}.csv", std::process::id()));
    let mut content = bytes.to_vec();
    if how & 1 != 0 {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        content = gzip.finish().unwrap();
    }
    std::fs::write(&path, &content).unwrap();
    let categorical = if how & 2 != 0 { vec!["a".to_string()] } else { Vec::new() };
    let mut options = ReadOptions::with_categorical(&categorical);
    if how & 0x20 != 0 {
        options.missing = MissingRows::Drop;
    }
    let whole = Table::read_with(&path, &options);
    let file = TableFile::open_with(&path, &options);
    let (whole, file) = match (whole, file) {
        (Ok(whole), Ok(file)) => (whole, file),
        (Err(one), Err(two)) => return assert_eq!(one.to_string(), two.to_string()),
        (one, two) => panic!("as a whole {one:?}, in blocks {two:?}"),
    };
    assert_eq!((whole.values.len(), file.rows()), (whole.rows * whole.names.len(), whole.rows));
    assert!(whole.values.iter().all(|value| value.is_finite()));
    assert_eq!((file.facts(), file.levels()), (&whole.facts, &whole.levels));
    assert!((0..whole.rows).all(|row| whole.origin.place(row).row > row as u64));
    let pieces: Vec<Table> = file.chunks(3).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(pieces.iter().flat_map(|piece| piece.values.clone()).collect::<Vec<_>>(), whole.values);

    let outcome = whole.names[whole.names.len() - 1].clone();
    let options = DesignOptions { outcome: Some(outcome), intercept: how & 4 != 0, ..DesignOptions::default() };
    let kind = [OutcomeKind::Logistic, OutcomeKind::Linear, OutcomeKind::Poisson, OutcomeKind::Softmax][(how >> 3) as usize % 4];
    let encoding = file.encoding(&options);
    let Ok(design) = Design::new(whole, &options) else {
        assert!(encoding.is_err());
        return;
    };
    let (encoding, _) = encoding.unwrap();
    let checked = design.check_outcome(kind);
    let finite = design.x.iter().all(|x| x.is_finite());
    match (checked, file.store(&encoding, kind, &std::env::temp_dir())) {
        (Ok(classes), Ok((stored, same))) => {
            let rows = Dataset::from(stored).take(&(0..design.rows).collect::<Vec<_>>()).unwrap();
            assert_eq!((classes, rows.design(), rows.outcome()), (same, &design.x[..], &design.outcome[..]));
        }
        (Ok(_), Err(_)) => assert!(!finite),
        (Err(_), stored) => assert!(stored.is_err()),
    }
});
