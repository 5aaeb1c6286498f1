//! Parquet files are tables like those of text: `cargo test -p natmix-models --features parquet --test parquet`.

use natmix_models::Table;
use natmix_models::table::{MissingRows, ReadOptions, TableFile};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = "message table {
    required int64 count;
    optional double size;
    required float weight;
    required boolean ill;
    required binary town (utf8);
    required int32 day (date);
}";

/// Two groups of rows.
fn write(name: &str, compression: Compression) -> PathBuf {
    let path = std::env::temp_dir().join(format!("natmix-parquet-{}-{name}.parquet", std::process::id()));
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::new(properties)).unwrap();
    for group in 0..2 {
        let mut rows = writer.next_row_group().unwrap();
        let first = 3 * group;
        let counts = [first, first + 1, 1 << (40 + group)];
        macro_rules! column {
            ($kind:ty, $values:expr, $levels:expr) => {{
                let mut column = rows.next_column().unwrap().unwrap();
                column.typed::<$kind>().write_batch($values, $levels, None).unwrap();
                column.close().unwrap();
            }};
        }
        column!(Int64Type, &counts, None);
        // One is null.
        column!(DoubleType, &[0.1 + group as f64, 1e-300], Some(&[1, 0, 1]));
        column!(FloatType, &[0.1, 0.5, -3.0], None);
        column!(BoolType, &[true, false, true], None);
        let towns = ["Bonn", "a \"b\", c", "Köln"].map(ByteArray::from);
        column!(ByteArrayType, &towns, None);
        column!(Int32Type, &[19_000, 19_001, 19_002], None);
        rows.close().unwrap();
    }
    writer.close().unwrap();
    path
}

fn options() -> ReadOptions {
    let mut options = ReadOptions::default();
    (options.missing, options.without) = (MissingRows::Drop, vec!["day".into()]);
    options
}

fn check(path: &Path) {
    let table = Table::read_with(path, &options()).unwrap();
    assert_eq!(table.names, ["count", "size", "weight", "ill", "town"]);
    assert_eq!(table.levels[&4], ["Bonn", "Köln"]);
    let weight = f64::from(0.1f32);
    let row = |group: usize| {
        let first = [3.0 * group as f64, 0.1 + group as f64, weight, 1.0, 0.0];
        [first, [(1u64 << (40 + group)) as f64, 1e-300, -3.0, 1.0, 1.0]].concat()
    };
    assert_eq!(table.values, [row(0), row(1)].concat());
    // Block by block, as often as needed.
    let file = TableFile::open_with(path, &options()).unwrap();
    for _ in 0..2 {
        let blocks: Vec<f64> = file.chunks(3).unwrap().flat_map(|block| block.unwrap().values).collect();
        assert_eq!(blocks, table.values);
    }
}

#[test]
fn values_are_those_of_the_file() {
    for (name, compression) in
        [("plain", Compression::UNCOMPRESSED), ("snappy", Compression::SNAPPY), ("lz4", Compression::LZ4_RAW)]
    {
        let path = write(name, compression);
        check(&path);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn problems_are_named() {
    let path = write("problems", Compression::SNAPPY);
    let failed = |options: &ReadOptions| Table::read_with(&path, options).unwrap_err().to_string();
    let mut strict = options();
    strict.missing = MissingRows::Error;
    let missing = failed(&strict);
    assert!(missing.contains("size") && missing.contains('2'), "{missing}");
    let mut all = options();
    all.without.clear();
    let dates = failed(&all);
    assert!(dates.contains("day") && dates.contains("date"), "{dates}");
    let whole = std::fs::read(&path).unwrap();
    for length in [4, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let damaged = failed(&options());
        assert!(damaged.contains("Parquet"), "{length}: {damaged}");
    }
    std::fs::remove_file(path).unwrap();
}
