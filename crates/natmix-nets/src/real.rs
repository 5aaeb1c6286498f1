//! The floating-point types of networks: `f64` for targets of the engine, `f32` for training.

use natmix::matrix::Number;
use std::ops::{Add, AddAssign, Mul, MulAssign, Sub};

/// `f32` or `f64`.
pub(crate) trait NetworkFloat:
    Number
    + Send
    + Sync
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + AddAssign
    + MulAssign
    + Into<f64>
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    fn of(x: f64) -> Self;
    fn tanh(self) -> Self;
}

impl NetworkFloat for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn of(x: f64) -> Self {
        x as f32
    }
    fn tanh(self) -> Self {
        f32::tanh(self)
    }
}

impl NetworkFloat for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn of(x: f64) -> Self {
        x
    }
    fn tanh(self) -> Self {
        f64::tanh(self)
    }
}
