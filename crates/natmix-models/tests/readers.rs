//! The readers end to end: what they accept, what they say about bad files, and that damage neither panics nor takes memory.

use flate2::{Compression, write::GzEncoder};
use natmix_models::Dataset;
use natmix_models::design::{Design, DesignOptions, OutcomeKind};
use natmix_models::error::DataError;
use natmix_models::idx::{ImageFolder, ImageSet};
use natmix_models::npy::{self, Array, Order, Values};
use natmix_models::table::{Table, TableFile};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The system's allocator, remembering the largest piece that this thread asked for.
struct Watching;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static WATCHING: Watching = Watching;

/// The largest piece of memory that `work` asked for at once.
fn largest_piece<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LARGEST.set(0);
    let result = work();
    (result, LARGEST.get())
}

/// A folder of a test's own, removed at its end.
struct ReaderFolder(PathBuf);

impl ReaderFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("natmix-readers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        ReaderFolder(path)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for ReaderFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn strings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(String::from).to_vec()
}

/// The message without the path of the file.
fn message<T: std::fmt::Debug>(path: &Path, result: Result<T, DataError>) -> String {
    let text = result.unwrap_err().to_string();
    text.strip_prefix(&format!("{}: ", path.display())).unwrap_or_else(|| panic!("no file in: {text}")).to_string()
}

#[test]
fn every_way_to_write_the_same_table() {
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
        // Known by its first bytes: the name says nothing.
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
fn what_is_said_about_bad_tables() {
    let folder = ReaderFolder::new("bad");
    let cases: &[(&[u8], &str)] = &[
        (b"", "the file is empty (expected a header line with the names of the columns, then one line a row)"),
        (b"\n\n", "the file is empty (expected a header line with the names of the columns, then one line a row)"),
        (b"a,b\n", "there is a header, but no row of data below it"),
        (
            b"1,2\n3,4\n",
            "the first line has only numbers (`1,2`), so the header is missing (add a first line with the names of the 2 columns)",
        ),
        (b"a,a\n1,2\n", "columns 1 and 2 are both named `a` (rename one of them)"),
        (
            b",a\n1,2\n",
            "column 1 of 2 has no name in the header (name it, or remove the column: row numbers written by a spreadsheet or \
             data frame are not data)",
        ),
        (
            b"a,b\n1,2\n3\n",
            "row 2 (line 3) has 1 fields, but the header has 2 (text with a comma in it must stand in double quotes)",
        ),
        (
            b"a,b\nx, y,2\n",
            "row 1 (line 2) has 3 fields, but the header has 2 (text with a comma in it must stand in double quotes)",
        ),
        (b"a,b\n1,2\n\n3,4\n", "line 3 is blank, but data follows it (remove the line)"),
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
            "3 missing values in `a` (1), `b` (2); the first is `` in row 1 (line 2), column `b` (fill in or remove the rows)",
        ),
        (
            b"a\n1\nnull\n",
            "1 missing value in `a` (1); the first is `null` in row 2 (line 3), column `a` (fill in or remove the rows)",
        ),
        (
            b"a,b\n1,\"2\n",
            "in the row that starts at line 2, a double quote is opened, but never closed (close it, or remove it)",
        ),
        (
            b"a;b\n1,5;2\n",
            "columns seem to be separated by semicolons (save the file with commas, and with a point in decimal numbers)",
        ),
        (b"a\tb\n1\t2\n", "columns seem to be separated by tabs (save the file with commas)"),
        (b"a,b\r1,2\r", "lines end with a lone carriage return (save the file with usual line ends)"),
        (
            b"PK\x03\x04....",
            "this is not a CSV file, but looks like a zip archive or a spreadsheet (.xlsx); export the table as CSV",
        ),
        (b"\xff\xfea\0", "this is not a CSV file, but looks like UTF-16 text; save it as UTF-8"),
        (b"a,\xe9\n1,2\n", "line 1, field 2: `\u{fffd}` is not UTF-8 text (save the file as UTF-8)"),
    ];
    for (bytes, expected) in cases {
        let path = folder.file("bad.csv", bytes);
        assert_eq!(&message(&path, Table::read(&path, &[])), expected);
        assert_eq!(&message(&path, TableFile::open(&path, &[])), expected);
    }
    let path = folder.file("bad.csv", b"a,b\n1,\xe9\n");
    assert!(
        message(&path, Table::read(&path, &strings(["b"]))).starts_with("line 2, field 2: `\u{fffd}` is not UTF-8")
    );
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
fn pieces_of_a_file_are_the_table_epoch_after_epoch() {
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
        // Encoded block by block it is the design of the whole table, bit for bit.
        let options = DesignOptions { outcome: Some("id".into()), ..DesignOptions::default() };
        let design = Design::new(whole, &options).unwrap();
        let (encoding, warnings) = file.encoding(&options).unwrap();
        assert_eq!((&encoding, &warnings), (&design.encoding, &design.warnings));
        let rows = file.chunks(64).unwrap().map(|block| encoding.encode(block.unwrap()).unwrap());
        let (x, y): (Vec<_>, Vec<_>) = rows.map(|rows| (rows.x, rows.outcome.unwrap())).unzip();
        assert_eq!(y.concat(), design.outcome);
        assert_eq!(x.concat(), design.x);
        // So are the rows that are kept on disk.
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
fn kept_rows_have_offsets_and_weights_and_are_checked() {
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
    assert!(text.starts_with("cannot keep 120 bytes of rows on disk in ") && text.contains("--out"), "{text}");
    let huge = folder.file("huge.csv", "x,y\n-1e308,0\n1.5e308,1\n1,1\n");
    let file = TableFile::open(&huge, &[]).unwrap();
    let options = DesignOptions { outcome: Some("y".into()), ..DesignOptions::default() };
    let result = file.encoding(&options).and_then(|(e, _)| file.store(&e, OutcomeKind::Logistic, &folder.0));
    assert!(message(&huge, result).contains("column `x`"));
}

#[test]
fn a_file_that_changes_under_way_is_noticed() {
    let folder = ReaderFolder::new("changes");
    let path = folder.file("a.csv", "x,g\n1,u\n2,v\n3,u\n");
    let file = TableFile::open(&path, &strings(["g"])).unwrap();
    let read_all = || file.chunks(2).and_then(|blocks| blocks.collect::<Result<Vec<_>, _>>());
    assert_eq!(read_all().unwrap().len(), 2);
    for (text, expected) in [
        ("x,g\n1,u\n2,v\n", "2 rows instead of 3"),
        ("x,g\n1,u\n2,v\n3,u\n4,u\n", "more than the 3 rows"),
        ("x,h\n1,u\n2,v\n3,u\n", "header is another one"),
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
    // Text, gaps and infinities in a column that the model does not know are none of its business.
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
fn reading_takes_hardly_more_than_the_values() {
    let folder = ReaderFolder::new("memory");
    let line = "1.25,-3.5,0.001,7,8,9,10,11\n";
    let text = format!("a,b,c,d,e,f,g,h\n{}", line.repeat(100_000));
    let values = 8 * 8 * 100_000;
    for (path, most) in [(folder.file("a.csv", &text), 1.01), (folder.file("a.csv.gz", gzip(text.as_bytes())), 1.13)] {
        let (table, largest) = largest_piece(|| Table::read(&path, &[]).unwrap());
        assert_eq!(8 * table.values.len(), values);
        assert!((largest as f64) < most * values as f64, "{largest} bytes for {values}");
        // Outcome out, intercept in: the design has the size of the table, and takes its memory.
        let options = DesignOptions { outcome: Some("d".into()), ..DesignOptions::default() };
        let (design, largest) = largest_piece(|| Design::new(table, &options).unwrap());
        assert_eq!(8 * design.x.len(), values);
        assert!(largest < values / 7, "{largest} bytes for {values}");
    }
    // Blank lines below a wide header announce many rows, but there is no room for these in the file.
    let names: Vec<String> = (0..1000).map(|i| format!("c{i}")).collect();
    let path = folder.file("blank.csv", format!("{}\n{}", names.join(","), "\n".repeat(1_000_000)));
    let (result, largest) = largest_piece(|| Table::read(&path, &[]));
    assert!(matches!(result, Err(DataError::NoRows { .. })));
    assert!(largest < 8_000_000, "{largest}");
}

fn idx(sizes: &[u32], values: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, sizes.len() as u8];
    sizes.iter().for_each(|size| bytes.extend(size.to_be_bytes()));
    bytes.extend(values);
    bytes
}

#[test]
fn image_folders() {
    let folder = ReaderFolder::new("idx");
    let message = |result: Result<ImageFolder, DataError>| result.unwrap_err().to_string();
    assert!(message(ImageFolder::read(&folder.0)).contains("no file train-images-idx3-ubyte"));
    folder.file("train-images-idx3-ubyte.gz", gzip(&idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6])));
    folder.file("train-labels.idx1-ubyte", idx(&[2], &[9, 0]));
    let images = ImageFolder::read(&folder.0).unwrap();
    assert_eq!((&images.train.pixels[..], &images.train.labels[..]), (&[1, 2, 3, 4, 5, 6][..], &[9, 0][..]));
    assert_eq!(images.train.to_table().names, ["p0_0", "p0_1", "p0_2", "label"]);
    assert!(images.test.is_none());
    folder.file("t10k-images-idx3-ubyte", idx(&[1, 1, 2], &[1, 2]));
    assert!(message(ImageFolder::read(&folder.0)).contains("no file t10k-labels-idx1-ubyte"));
    folder.file("t10k-labels-idx1-ubyte", idx(&[1], &[1]));
    assert!(message(ImageFolder::read(&folder.0)).contains("the images are 1 x 2, but those for training are 1 x 3"));
    for (bytes, expected) in [
        (idx(&[1, 1, 3], &[1, 2]), "the header says 1 x 1 x 3, so 3 bytes of values, but there are 2"),
        (idx(&[1, 1, 3], &[1, 2, 3, 4]), "bytes follow after the 3"),
        (idx(&[1, 0, 3], &[]), "there is nothing in it"),
        (idx(&[1, u32::MAX, u32::MAX], &[]), "too large to be true"),
        (idx(&[u32::MAX, 4096, 4096], &[]), "but there are 0"),
        (idx(&[1, 3], &[1, 2, 3]), "magic number 0x00000802 instead of 0x00000803"),
        (vec![0, 0], "only 2 bytes"),
        (vec![0, 0, 8, 3, 0, 0, 0, 1], "header is cut short"),
        (idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), "there are 1 labels, but"),
        (gzip(&idx(&[1, 1, 3], &[1, 2, 3]))[..30].to_vec(), "gzip data is damaged or cut short"),
        (gzip(&idx(&[1 << 30, 4, 4], &[1, 2, 3])), "but there are at most"),
    ] {
        folder.file("t10k-images-idx3-ubyte", bytes);
        let (result, largest) = largest_piece(|| ImageFolder::read(&folder.0));
        let text = message(result);
        assert!(text.contains(expected), "{text}");
        assert!(largest < 200_000, "{largest}");
    }
}

#[test]
fn arrays_come_back_as_they_were_written() {
    let folder = ReaderFolder::new("npy");
    let values = [
        Values::F64(vec![1.0, -0.0, f64::INFINITY, 1e-300, 5.0, 6.0]),
        Values::F32(vec![1.5, 2.5, 3.5, 4.5, 5.5, 6.5]),
        Values::I64(vec![i64::MIN, -1, 0, 1, 2, i64::MAX]),
    ];
    for values in values {
        for shape in [vec![6], vec![2, 3], vec![6, 1], vec![1, 6]] {
            for order in [Order::C, Order::Fortran] {
                let array = Array { shape: shape.clone(), values: values.clone() };
                let mut bytes = Vec::new();
                npy::write(&mut bytes, &array, order).unwrap();
                assert_eq!((bytes.len() - 6 * if matches!(values, Values::F32(_)) { 4 } else { 8 }) % 64, 0);
                let path = folder.file("a.npy", &bytes);
                assert_eq!(npy::read(&path).unwrap(), array);
            }
        }
    }
    let mut bytes = Vec::new();
    npy::write_rows(&mut bytes, 2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let path = folder.file("rows.npy", &bytes);
    assert_eq!(npy::read(&path).unwrap().values.into_f64(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Longer than what is read at once, and nothing at all.
    for count in [100_000, 0] {
        let array = Array { shape: vec![count, 2], values: Values::I64((0..2 * count as i64).collect()) };
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &array, Order::Fortran).unwrap();
        assert_eq!(npy::read(&folder.file("long.npy", &bytes)).unwrap(), array);
    }
}

/// A file with this header and so many bytes after it.
fn npy_bytes(version: u8, header: &str, follow: usize) -> Vec<u8> {
    let mut bytes = [b"\x93NUMPY", &[version, 0][..]].concat();
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.bytes());
    bytes.extend(vec![0; follow]);
    bytes
}

#[test]
fn what_is_said_about_bad_arrays() {
    let read = |version, header: &str, follow| npy::from_bytes("a.npy".as_ref(), &npy_bytes(version, header, follow));
    let good = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }";
    for version in 1..=3 {
        assert_eq!(read(version, good, 48).unwrap().shape, [2, 3]);
    }
    assert_eq!(read(1, "{\"shape\":(3L,),'fortran_order':True,'descr':\"<f4\"}  \n", 12).unwrap().shape, [3]);
    assert_eq!(read(1, &good.replace("2, 3", "900000000000, 0"), 0).unwrap().values.len(), 0);
    let huge = good.replace("2, 3", "4611686018427387904, 4611686018427387904");
    for (header, follow, expected) in [
        (good.to_string(), 47, "2 x 3 values of type <f8 take 48 bytes, but 47 bytes follow"),
        (good.to_string(), 49, "but 49 bytes follow"),
        (huge, 0, "take more than can be"),
        (good.replace("<f8", ">f8"), 48, "values of type `>f8` are not supported (save with .astype('<f8'))"),
        (good.replace("'<f8'", "[('a', '<f8')]"), 48, "arrays of records"),
        (good.replace("2, 3", ""), 8, "the array has 0 dimensions"),
        (good.replace("2, 3", "1, 2, 3"), 48, "the array has 3 dimensions"),
        (good.replace("2, 3", "-2, 3"), 48, "header is damaged"),
        (good.replace("False", "Maybe"), 48, "header is damaged"),
        (good.replace("'shape'", "'other'"), 48, "header is damaged"),
        (good.replace('}', "} x"), 48, "header is damaged"),
        (good.replace("'fortran_order'", "'descr': '<f8', 'fortran_order'"), 48, "header is damaged"),
    ] {
        let text = read(1, &header, follow).unwrap_err().to_string();
        assert!(text.starts_with("a.npy: ") && text.contains(expected), "{text}");
    }
    assert!(read(9, good, 48).unwrap_err().to_string().contains("version 9"));
    let text = npy::from_bytes("a.npy".as_ref(), b"PK..").unwrap_err().to_string();
    assert!(text.contains("no .npy file"), "{text}");
    let text = npy::from_bytes("a.npy".as_ref(), b"\x93NUMPY\x02\0\xff\xff\xff\xff").unwrap_err().to_string();
    assert!(text.contains("too long to be true"), "{text}");
}

/// Damages files in a way that depends on the seed alone.
struct Damage(u64);

impl Damage {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    fn apply(&mut self, original: &[u8]) -> Vec<u8> {
        const TELLING: &[u8] = b"\",\n\r\0\xff'(){}:-+.eE0919 Naif\x7f\x80\x1f\x8b";
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let byte = if self.below(2) == 0 { TELLING[self.below(TELLING.len())] } else { self.below(256) as u8 };
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), byte),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                3 => {
                    let copied = bytes[at.min(bytes.len())..].to_vec();
                    bytes.extend(copied);
                }
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        bytes
    }
}

/// Reads damaged versions of each file: every one must give a value or an error that names the file, in little memory.
fn survive<T>(name: &str, originals: &[Vec<u8>], times: usize, read: impl Fn(&Path) -> Result<T, DataError>) {
    let folder = ReaderFolder::new(name);
    let mut damage = Damage(17);
    let (mut accepted, mut refused) = (0, 0);
    for original in originals {
        assert!(read(&folder.file("damaged", original)).is_ok());
        for _ in 0..times {
            let bytes = damage.apply(original);
            let path = folder.file("damaged", &bytes);
            let (result, largest) = largest_piece(|| read(&path));
            // The fixed buffers, and what gzip may make of some bytes.
            assert!(largest < 2_000_000, "{largest} bytes for {bytes:?}");
            match result {
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert!(error.to_string().contains("damaged: "), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > times / 100 && refused > times / 10, "{accepted} accepted, {refused} refused: weak damage");
}

#[test]
fn damaged_tables_neither_panic_nor_take_memory() {
    let texts: Vec<Vec<u8>> = [
        "a,b,g\n1,2.5,x\n-3e2,.5,y\n0.001,1e-7,\"z, \"\"w\"\"\"\n",
        "\u{feff}name,\"b\nb\",g\r\n1,2,u\r\n\"3\",4,\"v\nv\"\r\n\r\n",
    ]
    .iter()
    .flat_map(|text| [text.as_bytes().to_vec(), gzip(text.as_bytes())])
    .collect();
    survive("fuzz-table", &texts, 2000, |path| {
        let table = Table::read(path, &strings(["g"]))?;
        assert_eq!(table.values.len(), table.rows * table.names.len());
        assert!(table.values.iter().all(|value| value.is_finite()));
        let file = TableFile::open(path, &strings(["g"]))?;
        let blocks = file.chunks(2)?.collect::<Result<Vec<_>, _>>()?;
        assert_eq!(
            blocks.iter().flat_map(|block| &block.values).collect::<Vec<_>>(),
            table.values.iter().collect::<Vec<_>>()
        );
        match Design::new(table, &DesignOptions::default()) {
            Ok(design) => assert_eq!(design.x.len(), design.rows * design.dim),
            Err(error) => assert!(error.to_string().contains("damaged: "), "{error}"),
        }
        Ok(())
    });
}

#[test]
fn damaged_images_neither_panic_nor_take_memory() {
    let labels_folder = ReaderFolder::new("fuzz-labels");
    let labels = labels_folder.file("damaged: labels", idx(&[2], &[1, 2]));
    let images = idx(&[2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
    survive("fuzz-idx", &[images.clone(), gzip(&images)], 2000, |path| ImageSet::read(path, &labels));
    let images = labels_folder.file("images", images);
    survive("fuzz-idx-labels", &[idx(&[2], &[1, 2])], 2000, |path| ImageSet::read(&images, path));
}

#[test]
fn damaged_arrays_neither_panic_nor_take_memory() {
    let arrays = [Order::C, Order::Fortran].map(|order| {
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &Array { shape: vec![2, 2], values: Values::F64(vec![0.0; 4]) }, order).unwrap();
        bytes
    });
    let short = npy_bytes(2, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 16);
    survive("fuzz-npy", &[arrays.to_vec(), vec![short]].concat(), 2000, npy::read);
}

/// Real files, where there are any: the folder that NATMIX_DATA names.
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
