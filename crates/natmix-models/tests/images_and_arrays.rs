//! Readers of IDX and NumPy files: what they accept, and their messages about bad files.

#[path = "common/files.rs"]
mod files;

use files::{ReaderFolder, gzip, idx, largest_allocation, npy_bytes};
use natmix_models::error::DataError;
use natmix_models::idx::ImageFolder;
use natmix_models::npy::{self, Array, Order, Values};

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
    assert!(message(ImageFolder::read(&folder.0)).contains("the images are 1 x 2, but the training images are 1 x 3"));
    for (bytes, expected) in [
        (idx(&[1, 1, 3], &[1, 2]), "the header says 1 x 1 x 3, so 3 bytes of values, but there are 2"),
        (idx(&[1, 1, 3], &[1, 2, 3, 4]), "bytes follow after the 3"),
        (idx(&[1, 0, 3], &[]), "there is nothing in it"),
        (idx(&[1, u32::MAX, u32::MAX], &[]), "too large to be plausible"),
        (idx(&[u32::MAX, 4096, 4096], &[]), "but there are 0"),
        (idx(&[1, 3], &[1, 2, 3]), "magic number 0x00000802 instead of 0x00000803"),
        (vec![0, 0], "only 2 bytes"),
        (vec![0, 0, 8, 3, 0, 0, 0, 1], "header is cut short"),
        (idx(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), "there are 1 labels, but"),
        (gzip(&idx(&[1, 1, 3], &[1, 2, 3]))[..30].to_vec(), "gzip data is damaged or cut short"),
        (gzip(&idx(&[1 << 30, 4, 4], &[1, 2, 3])), "but there are at most"),
    ] {
        folder.file("t10k-images-idx3-ubyte", bytes);
        let (result, largest) = largest_allocation(|| ImageFolder::read(&folder.0));
        let text = message(result);
        assert!(text.contains(expected), "{text}");
        assert!(largest < 200_000, "{largest}");
    }
}

#[test]
fn arrays_are_read_as_they_were_written() {
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
    // Longer than the buffer, and empty.
    for count in [100_000, 0] {
        let array = Array { shape: vec![count, 2], values: Values::I64((0..2 * count as i64).collect()) };
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &array, Order::Fortran).unwrap();
        assert_eq!(npy::read(&folder.file("long.npy", &bytes)).unwrap(), array);
    }
}

#[test]
fn messages_about_bad_arrays() {
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
        (huge, 0, "take more bytes than can be addressed"),
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
    assert!(text.contains("not a .npy file"), "{text}");
    let text = npy::from_bytes("a.npy".as_ref(), b"\x93NUMPY\x02\0\xff\xff\xff\xff").unwrap_err().to_string();
    assert!(text.contains("too long to be plausible"), "{text}");
}
