//! Leaves the vector registers in the state that scalar code expects.

use pulp::{Arch, Simd, WithSimd};
use std::hint::black_box;

/// Clears the upper halves of the vector registers.
///
/// The products of the linear-algebra crate leave them in use. On many processors every `exp` or `ln` of the system's library,
/// which is compiled for any machine, then takes a hundred times as long, until a function that uses these registers
/// itself returns: the compiler ends such functions by clearing them. This is one, with as little to do as possible.
pub(super) fn clear_upper_halves() {
    // By reference and long enough, so that the loop is vectorised.
    struct Clear<'a>(&'a mut [f64; 32]);
    impl WithSimd for Clear<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            self.0.iter_mut().for_each(|x| *x += 1.0);
        }
    }
    let mut values = [0.0; 32];
    Arch::new().dispatch(Clear(black_box(&mut values)));
    black_box(&values);
}
