//! The numbers that products are made of, without the traits of the linear-algebra crate in the public interface.

/// Numbers that products are made of: `f64`, and `f32` where speed counts more than digits.
pub trait Number: sealed::Multiply {}

impl Number for f32 {}
impl Number for f64 {}

/// Private, so that other crates can neither implement [`Number`] nor see how it multiplies.
mod sealed {
    use faer::linalg::matmul::matmul;
    use faer::{Accum, MatMut, MatRef, Par};

    pub trait Multiply: Copy {
        fn multiply(out: MatMut<'_, Self>, add: Accum, a: MatRef<'_, Self>, b: MatRef<'_, Self>, alpha: Self);
    }

    macro_rules! multiply {
        ($($number:ty),*) => {$(
            impl Multiply for $number {
                fn multiply(out: MatMut<'_, Self>, add: Accum, a: MatRef<'_, Self>, b: MatRef<'_, Self>, alpha: Self) {
                    matmul(out, add, a, b, alpha, Par::Seq);
                    super::super::registers::clear();
                }
            }
        )*};
    }

    multiply!(f32, f64);
}
