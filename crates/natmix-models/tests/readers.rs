//! Readers of tables: what they accept, their messages about bad files, and the memory they take.

#[path = "common/files.rs"]
mod files;

use files::{ReaderFolder, gzip, largest_allocation, message, strings};
use natmix_models::Dataset;
use natmix_models::design::{Design, DesignOptions, OutcomeKind};
use natmix_models::error::DataError;
use natmix_models::idx::ImageFolder;
use natmix_models::table::{Table, TableFile};
use std::path::PathBuf;

#[test]
fn different_spellings_of_a_table_read_the_same() {
    let folder = ReaderFolder::new("same");
    let texts = [
        "a,b c,g\n1,-2.5,x\n3e2,4,\"y, z\"\n",
        "a,b c,g\r\n1,-2.5,x\r\n3e2,4,\"y, z\"\r\n",
        "\u{feff}a,b c,g\n1,-2.5,x\n3e2,4,\"y, z\"",
        "\"a\",\"b c\",\"g\"\n\"1\",\"-2.5\",\"x\"\n\"3e2\",\"4\",\"y, z\"\n\n  \n\n",
        " a , b c,g\n 1 , -2.50 , x\n+300.0,4., \"y, z\" \n",
    ];
    for (i, text) in texts.iter().enumerate() {
        let plain = folder.file(&format!("{i}.csv"), text);
        // gzip is recognised by its first bytes, not by the file name.
        let packed = folder.file(&format!("{i}.txt"), gzip(text.as_bytes()));
        for path in [plain, packed] {
            let table = Table::read(&path, &strings(["g"])).unwrap();
            assert_eq!(table.names, ["a", "b c", "g"], "{text:?}");
            assert_eq!((table.rows, &table.values[..]), (2, &[1.0, -2.5, 0.0, 300.0, 4.0, 1.0][..]), "{text:?}");
            assert_eq!(table.levels[&2], ["x", "y, z"], "{text:?}");
        }
    }
}

#[test]
fn levels_are_sorted_by_size_or_text() {
    let folder = ReaderFolder::new("levels");
    let path = folder.file("a.csv", "n,t\n10,b\n9,B\n-1,10\n9,9\n");
    let table = Table::read(&path, &strings(["t", "n"])).unwrap();
    assert_eq!(
        (&table.levels[&0][..], &table.levels[&1][..]),
        (&strings(["-1", "9", "10"])[..], &strings(["10", "9", "B", "b"])[..])
    );
    assert_eq!(table.values, [2.0, 3.0, 1.0, 2.0, 0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn messages_about_bad_tables() {
    let folder = ReaderFolder::new("bad");
    let cases: &[(&[u8], &str)] = &[
        (b"", "the file is empty (expected a header line with the names of the columns, then one line per row)"),
        (b"\n\n", "the file is empty (expected a header line with the names of the columns, then one line per row)"),
        (b"a,b\n", "there is a header, but no row of data below it"),
        (
            b"1,2\n3,4\n",
            "the first line has only numbers (`1,2`), so the header is missing (add a first line with the names of the 2 columns)",
        ),
        (b"a,a\n1,2\n", "columns 1 and 2 are both named `a` (rename one of them)"),
        (
            b",a\n7,2\n",
            "column 1 of 2 has no name in the header, but holds `7` in row 1 (line 2) (name it, or remove the column)",
        ),
        (
            b"a,b\n1,2\n3\n",
            "row 2 (line 3) has 1 fields, but the header has 2 (text with a comma in it must be enclosed in double quotes)",
        ),
        (
            b"a,b\nx, y,2\n",
            "row 1 (line 2) has 3 fields, but the header has 2 (text with a comma in it must be enclosed in double quotes)",
        ),
        (b"a\n1\n\n3\n", "line 3 is blank, but data follows it (remove the line)"),
        (
            b"a,b\n1,2\n3,red\n",
            "row 2 (line 3), column `b`: `red` is not a number (correct it, or use --categorical b if the column holds categories)",
        ),
        (
            b"a,b\n\"1\",2\n\"x\ny\",4\n",
            "row 2 (line 3), column `a`: `x\\ny` is not a number (correct it, or use --categorical a if the column holds categories)",
        ),
        (b"a,b\n1,-inf\n", "row 1 (line 2), column `b`: `-inf` is infinite (correct or remove the row)"),
        (b"a,b\n1,1e999\n", "row 1 (line 2), column `b`: `1e999` is infinite (correct or remove the row)"),
        (
            b"a,b\n1,\nNA,2\n3,NaN\n",
            "3 missing values in `a` (1), `b` (2); the first is `` in row 1 (line 2), column `b` (fill them in, drop these rows with --missing drop, or leave columns out with --without)",
        ),
        (
            b"a\n1\nnull\n",
            "1 missing value in `a` (1); the first is `null` in row 2 (line 3), column `a` (fill them in, drop these rows with --missing drop, or leave columns out with --without)",
        ),
        (
            b"a,b\n1,\"2\n",
            "in the row that starts at line 2, a double quote is opened, but never closed (close it, or remove it)",
        ),
        (
            b"PK\x03\x04....",
            "this is not a CSV file, but looks like a zip archive or a spreadsheet (.xlsx); export the table as CSV",
        ),
    ];
    for (bytes, expected) in cases {
        let path = folder.file("bad.csv", bytes);
        assert_eq!(&message(&path, Table::read(&path, &[])), expected);
        assert_eq!(&message(&path, TableFile::open(&path, &[])), expected);
    }
    let path = folder.file("bad.csv", b"a,b\n1,2\n");
    let expected = "there is no column `c`, asked for as categorical (the columns are `a`, `b`)";
    assert_eq!(message(&path, Table::read(&path, &strings(["c"]))), expected);
    let ids: String = (0..10_001).map(|i| format!("\nid{i}")).collect();
    let path = folder.file("bad.csv", format!("id{ids}"));
    assert!(
        message(&path, Table::read(&path, &strings(["id"])))
            .contains("more than 10000 different values up to row 10001 (line 10002)")
    );
    let path = folder.0.join("nowhere.csv");
    assert!(message(&path, Table::read(&path, &[])).ends_with("(check the path)"));
    assert!(message(&folder.0, Table::read(&folder.0, &[])).contains("this is a folder"));
    let whole = gzip(b"a,b\n1,2\n");
    let path = folder.file("cut.csv.gz", &whole[..whole.len() - 9]);
    assert!(message(&path, Table::read(&path, &[])).contains("gzip data is damaged or cut short"));
}

#[test]
fn blocks_of_a_file_agree_with_the_whole_table() {
    let folder = ReaderFolder::new("pieces");
    let lines: String = (0..1000)
        .map(|i| format!("{},{},{}\n", i, (f64::from(i) * 0.37).sin(), ["u", "v", "w"][i as usize % 3]))
        .collect();
    let text = format!("id,x,g\n{lines}");
    for path in [folder.file("a.csv", &text), folder.file("a.csv.gz", gzip(text.as_bytes()))] {
        let whole = Table::read(&path, &strings(["g"])).unwrap();
        let file = TableFile::open(&path, &strings(["g"])).unwrap();
        assert_eq!((file.rows(), file.names(), file.levels()), (whole.rows, &whole.names[..], &whole.levels));
        for rows in [1, 7, 1000, usize::MAX] {
            let blocks: Vec<Table> = file.chunks(rows).unwrap().collect::<Result<_, _>>().unwrap();
            assert!(blocks.iter().all(|block| block.rows <= rows && block.levels == whole.levels));
            assert_eq!(blocks.iter().flat_map(|block| block.values.clone()).collect::<Vec<_>>(), whole.values);
        }
        // Encoded block by block it gives the design of the whole table, bit for bit.
        let options = DesignOptions { outcome: Some("id".into()), ..DesignOptions::default() };
        let design = Design::new(whole, &options).unwrap();
        let (encoding, warnings) = file.encoding(&options).unwrap();
        assert_eq!((&encoding, &warnings), (&design.encoding, &design.warnings));
        let rows = file.chunks(64).unwrap().map(|block| encoding.encode(block.unwrap()).unwrap());
        let (x, y): (Vec<_>, Vec<_>) = rows.map(|rows| (rows.x, rows.outcome.unwrap())).unzip();
        assert_eq!(y.concat(), design.outcome);
        assert_eq!(x.concat(), design.x);
        // So do the rows that are stored on disk.
        let (stored, classes) = file.store(&encoding, OutcomeKind::Poisson, &folder.0).unwrap();
        let rows = Dataset::from(stored).take(&(0..1000).collect::<Vec<_>>()).unwrap();
        assert_eq!((classes, rows.design(), rows.outcome()), (1, &design.x[..], &design.outcome[..]));
        assert_eq!((rows.names(), rows.offset(), rows.weights()), (&design.names[..], None, None));
        assert!(
            message(&path, file.store(&encoding, OutcomeKind::Logistic, &folder.0))
                .starts_with("row 3 (line 4), column `id`: 2 is neither")
        );
    }
    let mut left: Vec<_> = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["a.csv", "a.csv.gz"]);
}

#[test]
fn stored_rows_have_offsets_and_weights_and_are_checked() {
    let folder = ReaderFolder::new("kept");
    let path = folder.file("a.csv", "x,y,o,e,w\n1,0,0.5,2,1\n2,3,-1,1,0.25\n4,1,0,5,2\n");
    let file = TableFile::open(&path, &[]).unwrap();
    let options = DesignOptions {
        outcome: Some("y".into()),
        offset: Some("o".into()),
        exposure: Some("e".into()),
        weights: Some("w".into()),
        ..DesignOptions::default()
    };
    let design = Design::new(Table::read(&path, &[]).unwrap(), &options).unwrap();
    let (encoding, _) = file.encoding(&options).unwrap();
    let (stored, _) = file.store(&encoding, OutcomeKind::Poisson, &folder.0).unwrap();
    assert_eq!(file.encoded_bytes(&encoding), 3 * 5 * 8);
    let rows = Dataset::from(stored).take(&[0, 1, 2]).unwrap();
    assert_eq!((rows.design(), rows.outcome()), (&design.x[..], &design.outcome[..]));
    assert_eq!((rows.offset(), rows.weights()), (design.offset.as_deref(), design.weights.as_deref()));

    let missing = folder.0.join("not there");
    let text = file.store(&encoding, OutcomeKind::Poisson, &missing).unwrap_err().to_string();
    assert!(text.starts_with("cannot store 120 bytes of rows on disk in ") && text.contains("--out"), "{text}");
    let huge = folder.file("huge.csv", "x,y\n-1e308,0\n1.5e308,1\n1,1\n");
    let file = TableFile::open(&huge, &[]).unwrap();
    let options = DesignOptions { outcome: Some("y".into()), ..DesignOptions::default() };
    let result = file.encoding(&options).and_then(|(e, _)| file.store(&e, OutcomeKind::Logistic, &folder.0));
    assert!(message(&huge, result).contains("column `x`"));
}

#[test]
fn a_file_that_changes_while_in_use_is_noticed() {
    let folder = ReaderFolder::new("changes");
    let path = folder.file("a.csv", "x,g\n1,u\n2,v\n3,u\n");
    let file = TableFile::open(&path, &strings(["g"])).unwrap();
    let read_all = || file.chunks(2).and_then(|blocks| blocks.collect::<Result<Vec<_>, _>>());
    assert_eq!(read_all().unwrap().len(), 2);
    for (text, expected) in [
        ("x,g\n1,u\n2,v\n", "2 rows instead of 3"),
        ("x,g\n1,u\n2,v\n3,u\n4,u\n", "more than the 3 rows"),
        ("x,h\n1,u\n2,v\n3,u\n", "header is different"),
        ("x,g\n1,u\n2,w\n3,u\n", "row 2 (line 3), column `g`: the level `w`"),
        ("x,g\n1,u\n2,v\n,u\n", "1 missing value"),
    ] {
        folder.file("a.csv", text);
        let text = message(&path, read_all());
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn new_files_are_read_for_prediction() {
    let folder = ReaderFolder::new("predict");
    let train = folder.file("train.csv", "x,g,y\n1,u,no\n2,v,yes\n3,v,no\n");
    let options = DesignOptions { outcome: Some("y".into()), ..DesignOptions::default() };
    let design = Design::new(Table::read(&train, &strings(["g", "y"])).unwrap(), &options).unwrap();
    assert_eq!(design.check_outcome(OutcomeKind::Logistic).unwrap(), 2);
    // Text, missing values and infinities are allowed in a column that the model does not use.
    let new = folder.file("new.csv", "note,g,x\nhello,v,2\n,u,1\ninf,v,3\n");
    let rows = design.encoding.read(&new).unwrap();
    assert_eq!((rows.rows, rows.outcome.is_none(), &rows.ignored[..]), (3, true, &strings(["note"])[..]));
    assert_eq!(rows.x, [design.x[3..6].to_vec(), design.x[..3].to_vec(), design.x[6..].to_vec()].concat());
    let scored = folder.file("scored.csv", "y,x,g\nyes,1,u\nno,2,u\n");
    assert_eq!(design.encoding.read(&scored).unwrap().outcome.unwrap(), [1.0, 0.0]);
    for (text, expected) in [
        ("x\n1\n", "column `g` is missing; the model was fitted with it as a feature"),
        ("x,g\n1,u\n2,z\n", "row 2 (line 3), column `g`: the level `z` did not occur"),
        ("x,g\n1,u\nb,u\n", "row 2 (line 3), column `x`: `b` is not a number"),
        ("y,x,g\nmaybe,1,u\n", "row 1 (line 2), column `y`: the level `maybe`"),
    ] {
        let path = folder.file("bad.csv", text);
        let text = message(&path, design.encoding.read(&path));
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn reading_takes_little_more_memory_than_the_values() {
    let folder = ReaderFolder::new("memory");
    let line = "1.25,-3.5,0.001,7,8,9,10,11\n";
    let text = format!("a,b,c,d,e,f,g,h\n{}", line.repeat(100_000));
    let values = 8 * 8 * 100_000;
    for (path, most) in [(folder.file("a.csv", &text), 1.01), (folder.file("a.csv.gz", gzip(text.as_bytes())), 1.13)] {
        let (table, largest) = largest_allocation(|| Table::read(&path, &[]).unwrap());
        assert_eq!(8 * table.values.len(), values);
        assert!((largest as f64) < most * values as f64, "{largest} bytes for {values}");
        // The intercept replaces the outcome: the design has the size of the table and reuses its memory.
        let options = DesignOptions { outcome: Some("d".into()), ..DesignOptions::default() };
        let (design, largest) = largest_allocation(|| Design::new(table, &options).unwrap());
        assert_eq!(8 * design.x.len(), values);
        assert!(largest < values / 7, "{largest} bytes for {values}");
    }
    // Blank lines below a wide header suggest many rows, but the file is too small to hold them.
    let names: Vec<String> = (0..1000).map(|i| format!("c{i}")).collect();
    let path = folder.file("blank.csv", format!("{}\n{}", names.join(","), "\n".repeat(1_000_000)));
    let (result, largest) = largest_allocation(|| Table::read(&path, &[]));
    assert!(matches!(result, Err(DataError::NoRows { .. })));
    assert!(largest < 8_000_000, "{largest}");
}

/// Real files, in the folder named by NATMIX_DATA if it is set.
#[test]
fn real_tables_and_images() {
    let Some(data) = std::env::var_os("NATMIX_DATA").map(PathBuf::from) else { return };
    let table = Table::read(&data.join("classification/a9a_train.csv.gz"), &[]).unwrap();
    assert_eq!(table.rows, 32_561);
    let images = ImageFolder::read(&data.join("mnist")).unwrap();
    assert_eq!((images.train.count, images.train.height, images.train.width), (60_000, 28, 28));
    assert_eq!(images.train.labels[..5], [5, 0, 4, 1, 9]);
    assert_eq!(images.test.unwrap().labels[..5], [7, 2, 1, 0, 4]);
}
