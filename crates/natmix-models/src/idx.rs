//! Images with labels in IDX files: the folder layout of MNIST and its successors.
//!
//! An IDX file is a magic number `0x0000TTNN` (type TT, NN dimensions), the NN sizes, and the values, all big-endian. Here images
//! are `0x00000803` (count, rows, columns) and labels `0x00000801` (count), both unsigned bytes, plain or gzip.
//!
//! ```
//! use natmix_models::idx::ImageSet;
//! let folder = std::env::temp_dir().join(format!("natmix-doc-idx-{}", std::process::id()));
//! std::fs::create_dir_all(&folder).unwrap();
//! let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[0, 255, 51, 0]].concat();
//! let (images_file, labels_file) = (folder.join("images"), folder.join("labels"));
//! std::fs::write(&images_file, images).unwrap();
//! std::fs::write(&labels_file, [0, 0, 8, 1, 0, 0, 0, 2, 7, 3]).unwrap();
//! let set = ImageSet::read(&images_file, &labels_file).unwrap();
//! assert_eq!((set.count, set.height, set.width, &set.labels[..]), (2, 1, 2, &[7, 3][..]));
//! assert_eq!(set.to_table().values, [0.0, 1.0, 7.0, 0.2, 0.0, 3.0]);
//! # std::fs::remove_dir_all(&folder).unwrap();
//! ```

use crate::error::DataError;
use crate::source::{DataSource, read_error};
use crate::table::{Origin, Table, TableFacts};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most pixels per image: larger sizes mean that the file is damaged.
const MOST_PIXELS: usize = 1 << 24;

/// Images and the label of each.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageSet {
    /// Where the images came from, for messages.
    pub file: PathBuf,
    /// Number of images.
    pub count: usize,
    /// Rows of pixels per image.
    pub height: usize,
    /// Pixels per row.
    pub width: usize,
    /// The pixels, image by image and row by row.
    pub pixels: Vec<u8>,
    /// One label per image.
    pub labels: Vec<u8>,
}

/// The training and test images of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFolder {
    /// `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`.
    pub train: ImageSet,
    /// `t10k-images-idx3-ubyte` and `t10k-labels-idx1-ubyte`, if present.
    pub test: Option<ImageSet>,
}

impl ImageFolder {
    /// Reads a folder in the layout of MNIST, each file plain or with `.gz`.
    pub fn read(folder: &Path) -> Result<ImageFolder, DataError> {
        let train = ImageSet::read(&needed(folder, "train", "images")?, &needed(folder, "train", "labels")?)?;
        let test = match (find(folder, "t10k", "images"), find(folder, "t10k", "labels")) {
            (None, None) => None,
            _ => Some(ImageSet::read(&needed(folder, "t10k", "images")?, &needed(folder, "t10k", "labels")?)?),
        };
        if let Some(test) = test.as_ref().filter(|test| (test.height, test.width) != (train.height, train.width)) {
            let problem = format!(
                "the images are {} x {}, but the training images are {} x {} (the files do not belong together)",
                test.height, test.width, train.height, train.width
            );
            return Err(DataError::BadFile { file: test.file.clone(), problem });
        }
        Ok(ImageFolder { train, test })
    }
}

impl ImageSet {
    /// Reads a file of images and the file of their labels.
    pub fn read(images: &Path, labels: &Path) -> Result<ImageSet, DataError> {
        let ([count, height, width], pixels) = read_idx::<3>(images)?;
        let ([label_count], values) = read_idx::<1>(labels)?;
        if label_count != count {
            let problem = format!("there are {label_count} labels, but {} has {count} images", images.display());
            return Err(DataError::BadFile { file: labels.into(), problem });
        }
        Ok(ImageSet { file: images.into(), count, height, width, pixels, labels: values })
    }

    /// One row per image: the pixels from 0 to 1 as columns `p<row>_<column>`, then the column `label`.
    pub fn to_table(&self) -> Table {
        let size = self.height * self.width;
        let mut names: Vec<String> = (0..size).map(|i| format!("p{}_{}", i / self.width, i % self.width)).collect();
        names.push("label".into());
        let mut values = Vec::with_capacity(self.count * names.len());
        for (image, label) in self.pixels.chunks_exact(size).zip(&self.labels) {
            values.extend(image.iter().map(|pixel| f64::from(*pixel) / 255.0));
            values.push(f64::from(*label));
        }
        let origin = Origin { file: self.file.clone(), rows_before: 0, lines_known: false, dropped: Vec::new() };
        Table { origin, names, rows: self.count, values, levels: BTreeMap::new(), facts: TableFacts::default() }
    }
}

fn find(folder: &Path, set: &str, what: &str) -> Option<PathBuf> {
    let dims = if what == "images" { 3 } else { 1 };
    let names = [format!("{set}-{what}-idx{dims}-ubyte"), format!("{set}-{what}.idx{dims}-ubyte")];
    let with_gz = names.iter().flat_map(|name| [folder.join(name), folder.join(format!("{name}.gz"))]);
    with_gz.into_iter().find(|path| path.is_file())
}

fn needed(folder: &Path, set: &str, what: &str) -> Result<PathBuf, DataError> {
    find(folder, set, what).ok_or_else(|| {
        let dims = if what == "images" { 3 } else { 1 };
        let problem = format!("there is no file {set}-{what}-idx{dims}-ubyte (plain or .gz) in this folder");
        DataError::BadFile { file: folder.into(), problem }
    })
}

/// Reads a file of unsigned bytes with N dimensions; allocates no more than the file can fill.
fn read_idx<const N: usize>(path: &Path) -> Result<([usize; N], Vec<u8>), DataError> {
    let bad = |problem: String| DataError::BadFile { file: path.into(), problem };
    let mut source = DataSource::open(path)?;
    let (most, compressed) = (source.most_bytes(), source.compressed);
    let failed = |error| read_error(path, compressed, error);
    let mut head = Vec::new();
    let head_size = 4 + 4 * N;
    source.reader.by_ref().take(head_size as u64).read_to_end(&mut head).map_err(failed)?;
    let word =
        |i: usize| head.get(4 * i..4 * i + 4).map(|bytes| bytes.iter().fold(0, |sum, b| sum << 8 | u32::from(*b)));
    match word(0) {
        Some(magic) if magic == 0x0800 + N as u32 => {}
        Some(magic) => {
            let what = if N == 3 { "images" } else { "labels" };
            return Err(bad(format!(
                "magic number {magic:#010x} instead of {:#010x}: not an IDX file of {what}",
                0x0800 + N
            )));
        }
        None => return Err(bad(format!("the file has only {} bytes (copy or download it again)", head.len()))),
    }
    let mut sizes = [0; N];
    for (i, size) in sizes.iter_mut().enumerate() {
        *size = word(i + 1).ok_or_else(|| bad("the header is cut short (copy or download the file again)".into()))?
            as usize;
    }
    if sizes.contains(&0) {
        return Err(bad(format!("the header says {}: there is nothing in it", shape(&sizes))));
    }
    let pixels = sizes[1..].iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    let total = pixels.filter(|pixels| *pixels <= MOST_PIXELS).and_then(|pixels| pixels.checked_mul(sizes[0]));
    let total = total.ok_or_else(|| bad(format!("the header says {}: too large to be plausible", shape(&sizes))))?;
    let cut_short = |there: u64| {
        bad(format!(
            "the header says {}, so {total} bytes of values, but there {} {there} (copy or download the file again)",
            shape(&sizes),
            if compressed { "are at most" } else { "are" },
        ))
    };
    let room = most.saturating_sub(head_size as u64);
    if total as u64 > room {
        return Err(cut_short(room));
    }
    let mut values = Vec::with_capacity(total.min(1 << 26));
    // One byte more than expected: detects trailing bytes, and makes gzip verify its checksum.
    source.reader.by_ref().take(total as u64 + 1).read_to_end(&mut values).map_err(failed)?;
    match values.len() {
        there if there < total => Err(cut_short(there as u64)),
        there if there > total => {
            Err(bad(format!("bytes follow after the {total} that the header announces (is it the right file?)")))
        }
        _ => Ok((sizes, values)),
    }
}

fn shape(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}
