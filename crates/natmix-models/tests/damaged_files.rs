//! Damaged files of every format: readers neither panic nor take much memory.

#[path = "common/files.rs"]
mod files;

use files::{ReaderFolder, gzip, idx, largest_allocation, npy_bytes, strings};
use natmix_models::design::{Design, DesignOptions};
use natmix_models::error::DataError;
use natmix_models::idx::ImageSet;
use natmix_models::npy::{self, Array, Order, Values};
use natmix_models::table::{MissingRows, ReadOptions, Table, TableFile};
use std::path::Path;

/// Pseudo-random damage from a fixed seed.
struct Damage(u64);

impl Damage {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    fn apply(&mut self, original: &[u8]) -> Vec<u8> {
        const SPECIAL_BYTES: &[u8] = b"\",\n\r\0\xff'(){}:-+.eE0919 Naif\x7f\x80\x1f\x8b";
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let byte =
                if self.below(2) == 0 { SPECIAL_BYTES[self.below(SPECIAL_BYTES.len())] } else { self.below(256) as u8 };
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

/// Reads damaged versions of each file: each must return a value or an error that names the file, using little memory.
fn check_damaged_versions<T>(
    name: &str,
    originals: &[Vec<u8>],
    times: usize,
    read: impl Fn(&Path) -> Result<T, DataError>,
) {
    let folder = ReaderFolder::new(name);
    let mut damage = Damage(17);
    let (mut accepted, mut refused) = (0, 0);
    for original in originals {
        assert!(read(&folder.file("damaged", original)).is_ok());
        for _ in 0..times {
            let bytes = damage.apply(original);
            let path = folder.file("damaged", &bytes);
            let (result, largest) = largest_allocation(|| read(&path));
            // Room for the fixed buffers and for decompressed bytes.
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
fn damaged_tables_neither_panic_nor_exhaust_memory() {
    let texts: Vec<Vec<u8>> = [
        "a,b,g\n1,2.5,x\n-3e2,.5,y\n0.001,1e-7,\"z, \"\"w\"\"\"\n",
        "\u{feff}name,\"b\nb\",g\r\n1,2,u\r\n\"3\",4,\"v\nv\"\r\n\r\n",
        "# note\n;x;g;\n1;1.234,5;\"u;\n v\";\n\n2;-0,5;NA;\n3;7;wö;\n",
        "x|g\r1,5|-\r2|yes\r",
    ]
    .iter()
    .flat_map(|text| {
        let utf16: Vec<u8> = std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        [text.as_bytes().to_vec(), gzip(text.as_bytes()), utf16]
    })
    .collect();
    let mut options = ReadOptions::with_categorical(&strings(["g"]));
    options.missing = MissingRows::Drop;
    check_damaged_versions("fuzz-table-drop", &texts, 500, |path| {
        let table = Table::read_with(path, &options)?;
        assert!(table.values.iter().all(|value| value.is_finite()));
        assert!((0..table.rows).all(|row| table.origin.place(row).row > row as u64));
        let file = TableFile::open_with(path, &options)?;
        let blocks = file.chunks(2)?.collect::<Result<Vec<_>, _>>()?;
        assert_eq!((file.facts(), blocks.iter().map(|block| block.rows).sum()), (&table.facts, table.rows));
        assert!(table.values.iter().eq(blocks.iter().flat_map(|block| &block.values)));
        Ok(())
    });
    let texts: Vec<Vec<u8>> = texts[..6].to_vec();
    check_damaged_versions("fuzz-table", &texts, 1000, |path| {
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
fn damaged_images_neither_panic_nor_exhaust_memory() {
    let labels_folder = ReaderFolder::new("fuzz-labels");
    let labels = labels_folder.file("damaged: labels", idx(&[2], &[1, 2]));
    let images = idx(&[2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
    check_damaged_versions("fuzz-idx", &[images.clone(), gzip(&images)], 2000, |path| ImageSet::read(path, &labels));
    let images = labels_folder.file("images", images);
    check_damaged_versions("fuzz-idx-labels", &[idx(&[2], &[1, 2])], 2000, |path| ImageSet::read(&images, path));
}

#[test]
fn damaged_arrays_neither_panic_nor_exhaust_memory() {
    let arrays = [Order::C, Order::Fortran].map(|order| {
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &Array { shape: vec![2, 2], values: Values::F64(vec![0.0; 4]) }, order).unwrap();
        bytes
    });
    let short = npy_bytes(2, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 16);
    check_damaged_versions("fuzz-npy", &[arrays.to_vec(), vec![short]].concat(), 2000, npy::read);
}
