//! Arbitrary bytes are refused, or read as an array that can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use natmix_models::npy::{Order, from_bytes, write};
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(array) = from_bytes(Path::new("input"), bytes) else { return };
    for order in [Order::C, Order::Fortran] {
        let mut written = Vec::new();
        write(&mut written, &array, order).unwrap();
        let again = from_bytes(Path::new("again"), &written).expect("what was written can be read");
        assert_eq!(again.shape, array.shape);
        let bits = |values: Vec<f64>| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(again.values.into_f64()), bits(array.values.clone().into_f64()));
    }
});
