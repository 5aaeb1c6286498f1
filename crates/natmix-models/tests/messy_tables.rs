//! Messy tables, stored as readable cases in `messy_tables.txt`: each is read as a person expects, in memory and in blocks, or refused
//! with row, column and remedy.

#[path = "common/files.rs"]
mod files;

use files::{ReaderFolder, gzip, message};
use natmix_models::table::{MissingRows, ReadOptions, Table, TableFile};

/// A case of the file.
#[derive(Default)]
struct Case {
    name: String,
    file: Vec<u8>,
    options: ReadOptions,
    table: Vec<String>,
    notes: Vec<String>,
    message: Option<String>,
}

/// The bytes of a line, with `\t`, `\r` and `\xE9` replaced.
fn bytes(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line);
    while let Some(at) = rest.find('\\') {
        bytes.extend(rest[..at].bytes());
        let (byte, used) = match rest.as_bytes()[at + 1] {
            b't' => (b'\t', 2),
            b'r' => (b'\r', 2),
            _ => (u8::from_str_radix(&rest[at + 2..at + 4], 16).unwrap(), 4),
        };
        bytes.push(byte);
        rest = &rest[at + used..];
    }
    bytes.extend(rest.bytes());
    bytes
}

fn case(text: &str) -> Case {
    let mut lines = text.lines();
    let mut case = Case { name: lines.next().unwrap().trim().to_string(), ..Case::default() };
    let mut encoding = "";
    for line in lines.filter(|line| !line.is_empty()) {
        let rest = line.get(2..).unwrap_or("");
        match line.as_bytes()[0] {
            b'|' => {
                case.file.extend(bytes(rest));
                case.file.push(b'\n');
            }
            b'=' => case.table.push(rest.to_string()),
            b'~' => case.notes.push(rest.to_string()),
            b'!' => case.message = Some(rest.to_string()),
            b':' => {
                for word in rest.split(' ') {
                    let list = |text: &str| text.split(',').map(String::from).collect::<Vec<_>>();
                    match word.split_once('=') {
                        Some(("categorical", names)) => case.options.categorical = list(names),
                        Some(("only", names)) => case.options.only = Some(list(names)),
                        Some(("without", names)) => case.options.without = list(names),
                        Some(("missing", "drop")) => case.options.missing = MissingRows::Drop,
                        Some(("reference", text)) => {
                            let (column, level) = text.split_once('=').unwrap();
                            case.options.reference.push((column.into(), level.into()));
                        }
                        None => encoding = word,
                        Some(other) => panic!("{other:?}"),
                    }
                }
            }
            _ => panic!("{}: {line}", case.name),
        }
    }
    let utf16 = |order: fn(u16) -> [u8; 2]| {
        let text = String::from_utf8(case.file.clone()).unwrap();
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(order).collect()
    };
    match encoding {
        "" => {}
        "cr" => case.file.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r'),
        "utf16le" => case.file = utf16(u16::to_le_bytes),
        "utf16be" => case.file = utf16(u16::to_be_bytes),
        other => panic!("{other}"),
    }
    case
}

fn cases() -> Vec<Case> {
    let text = include_str!("messy_tables.txt");
    text.split("\n### ").skip(1).map(case).collect()
}

/// The lines of a table: names, then rows.
fn shown(table: &Table) -> Vec<String> {
    let value = |(column, value): (usize, &f64)| match table.levels.get(&column) {
        Some(levels) => levels[*value as usize].replace('\n', "\\n"),
        None => value.to_string(),
    };
    let row = |row: &[f64]| row.iter().enumerate().map(value).collect::<Vec<_>>().join(" ; ");
    std::iter::once(table.names.join(" ; ")).chain(table.values.chunks_exact(table.names.len()).map(row)).collect()
}

#[test]
fn messy_tables_are_read_as_people_expect_or_refused_with_advice() {
    let folder = ReaderFolder::new("messy");
    let cases = cases();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        for (file, content) in [("a.csv", case.file.clone()), ("a.csv.gz", gzip(&case.file))] {
            let path = folder.file(file, content);
            let whole = Table::read_with(&path, &case.options);
            let blocks = TableFile::open_with(&path, &case.options);
            match (&case.message, whole, blocks) {
                (None, Ok(table), Ok(file)) => {
                    let notes = table.facts.notes(None);
                    if shown(&table) != case.table || notes != case.notes {
                        wrong.push(format!("{}: {:#?} {notes:#?}", case.name, shown(&table)));
                    }
                    assert_eq!((file.facts(), file.levels()), (&table.facts, &table.levels), "{}", case.name);
                    let blocks: Vec<Table> = file.chunks(2).unwrap().collect::<Result<_, _>>().unwrap();
                    let values: Vec<f64> = blocks.iter().flat_map(|block| block.values.clone()).collect();
                    assert_eq!(values, table.values, "{}", case.name);
                    assert_eq!(blocks.iter().map(|block| block.rows).sum::<usize>(), table.rows);
                }
                (Some(expected), whole, blocks) => {
                    if whole.is_ok() {
                        wrong.push(format!("{}: {:?}", case.name, whole.map(|table| shown(&table))));
                        continue;
                    }
                    let found = message(&path, whole);
                    assert_eq!(found, message(&path, blocks), "{}", case.name);
                    if found != *expected {
                        wrong.push(format!("{}:\n  {found}", case.name));
                    }
                }
                (None, whole, _) => wrong.push(format!("{}: {}", case.name, message(&path, whole))),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Messages about rows name those of the file, also where rows before them were dropped.
#[test]
fn rows_keep_their_numbers_when_others_are_dropped() {
    let folder = ReaderFolder::new("messy-origin");
    let dropped = [0, 3, 4, 8, 17, 18, 19];
    let row = |i: usize| if dropped.contains(&i) { "\nNA".to_string() } else { format!("\n{i}") };
    let path = folder.file("a.csv", format!("x{}", (0..20).map(row).collect::<String>()));
    let mut options = ReadOptions::default();
    options.missing = MissingRows::Drop;
    let table = Table::read_with(&path, &options).unwrap();
    assert_eq!(table.rows, 20 - dropped.len());
    let check = |table: &Table| {
        for (row, value) in table.values.iter().enumerate() {
            let place = table.origin.place(row);
            assert_eq!((place.row, place.line), (*value as u64 + 1, Some(*value as u64 + 2)));
        }
    };
    check(&table);
    for rows in 1..8 {
        let file = TableFile::open_with(&path, &options).unwrap();
        file.chunks(rows).unwrap().for_each(|block| check(&block.unwrap()));
    }
}

/// The same table in every dialect has the same bits as the plain one.
#[test]
fn dialects_do_not_change_a_bit() {
    let folder = ReaderFolder::new("messy-bits");
    let number = |i: u32| (f64::from(i) * 0.7).sin() * 10f64.powi((i % 7) as i32 - 3);
    let rows: Vec<[String; 3]> = (0..500)
        .map(|i| [number(i).to_string(), format!("{:e}", number(i + 9)), ["u", "v w"][i as usize % 2].into()])
        .collect();
    let write = |separator: &str, end: &str, mark: &str| {
        let line =
            |row: &[String; 3]| [row[0].replace('.', mark), row[1].replace('.', mark), row[2].clone()].join(separator);
        let lines = std::iter::once(["x", "y", "g"].join(separator)).chain(rows.iter().map(line));
        lines.map(|line| line + end).collect::<String>()
    };
    let plain = Table::read(&folder.file("plain.csv", write(",", "\n", ".")), &["g".to_string()]).unwrap();
    for (row, read) in rows.iter().zip(plain.values.chunks_exact(3)) {
        let expected = [row[0].parse::<f64>().unwrap(), row[1].parse().unwrap()];
        assert_eq!(expected.map(f64::to_bits), [read[0].to_bits(), read[1].to_bits()]);
    }
    for separator in [",", ";", "\t", "|"] {
        for end in ["\n", "\r\n", "\r"] {
            for mark in [".", ","] {
                if separator == mark {
                    continue;
                }
                let text = write(separator, end, mark);
                let utf16: Vec<u8> =
                    std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
                for content in [text.into_bytes(), utf16] {
                    let path = folder.file("other.txt", content);
                    let table = Table::read(&path, &[]).unwrap();
                    let bits = |table: &Table| table.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                    assert_eq!(
                        (bits(&table), &table.levels),
                        (bits(&plain), &plain.levels),
                        "{separator:?} {end:?} {mark}"
                    );
                }
            }
        }
    }
}
