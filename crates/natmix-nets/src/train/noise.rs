//! Normal random numbers for weights: functions of the index alone, generated many at a time.
//!
//! A training step needs as many normal numbers as there are weights, so they are generated eight or sixteen at once: a counter,
//! hashed with the key of the stream, gives uniform bits, and the Box-Muller transform turns two of them into two
//! normals. Logarithm, sine and cosine are polynomials with errors of about 1e-7. Number `i` of a stream is the same for any
//! thread and any split into portions.

use pulp::{Arch, Simd, WithSimd};

/// Pairs that are generated at once.
const LANES: usize = 16;
/// Numbers that are generated at once; portions begin at multiples of it.
pub(crate) const BLOCK: usize = 2 * LANES;

/// Purpose of a stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamPurpose {
    /// Initial means.
    Start = 1,
    /// Draws of weights in training.
    Weights = 2,
    /// Order of the rows.
    Order = 3,
    /// Draws of weights for predictions.
    Prediction = 4,
    /// Choice of the validation rows.
    Validation = 5,
}

/// A stream of random numbers, keyed by seed, purpose, component, iteration and draw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(u32, u32);

impl Stream {
    pub fn new(seed: u64, purpose: StreamPurpose, component: u64, iteration: u64, draw: u64) -> Self {
        let key =
            [purpose as u64, component, iteration, draw].into_iter().fold(mix(seed), |key, part| mix(key ^ mix(part)));
        Self(key as u32, (key >> 32) as u32)
    }

    /// 32 random bits.
    #[inline(always)]
    pub fn bits(self, index: u32) -> u32 {
        scramble(scramble(index ^ self.0).wrapping_add(self.1))
    }

    /// The `index`-th integer, uniform on `0..bound`.
    pub fn below(self, index: u32, bound: u32) -> u32 {
        let wide = u64::from(self.bits(2 * index)) << 32 | u64::from(self.bits(2 * index + 1));
        ((u128::from(wide) * u128::from(bound)) >> 64) as u32
    }

    /// Numbers `first..` of the stream; `first` is a multiple of [`BLOCK`].
    pub fn normals(self, first: usize, out: &mut [f32]) {
        debug_assert!(first.is_multiple_of(BLOCK));
        // A separate type: a closure would be compiled without the vector instructions.
        struct StreamFill<'a>(Stream, u32, &'a mut [f32]);
        impl WithSimd for StreamFill<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let Self(stream, first, out) = self;
                let mut counter = first;
                let mut blocks = out.chunks_exact_mut(BLOCK);
                for block in &mut blocks {
                    block.copy_from_slice(&pairs(stream, counter));
                    counter = counter.wrapping_add(BLOCK as u32);
                }
                let rest = blocks.into_remainder();
                if !rest.is_empty() {
                    rest.copy_from_slice(&pairs(stream, counter)[..rest.len()]);
                }
            }
        }
        Arch::new().dispatch(StreamFill(self, first as u32, out));
    }
}

/// The order of the rows in an epoch: starts from the identity each time, so that a resumed run needs no earlier orders.
pub(crate) fn shuffle(order: &mut [u32], stream: Stream) {
    for (i, row) in order.iter_mut().enumerate() {
        *row = i as u32;
    }
    for i in (1..order.len()).rev() {
        order.swap(i, stream.below(i as u32, i as u32 + 1) as usize);
    }
}

#[inline(always)]
fn pairs(stream: Stream, first: u32) -> [f32; BLOCK] {
    let mut out = [0.0; BLOCK];
    for lane in 0..LANES {
        let radius = stream.bits(first.wrapping_add(lane as u32));
        let angle = stream.bits(first.wrapping_add((LANES + lane) as u32));
        let r = (-2.0 * ln(((radius >> 8) as i32 as f32 + 1.0) * (1.0 / 16_777_216.0))).sqrt();
        let (sin, cos) = sin_cos_turn(angle);
        out[lane] = r * cos;
        out[LANES + lane] = r * sin;
    }
    out
}

/// Logarithm of a normal (not subnormal) float in (0, 1].
#[inline(always)]
fn ln(u: f32) -> f32 {
    let bits = u.to_bits();
    // Mantissa in [sqrt 1/2, sqrt 2).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32 >> 23) as f32;
    let f = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(0x3f35_04f3)) - 1.0;
    let p = 7.037_683_6e-2;
    let p = p * f - 1.151_461e-1;
    let p = p * f + 1.167_699_9e-1;
    let p = p * f - 1.242_014_1e-1;
    let p = p * f + 1.424_932_3e-1;
    let p = p * f - 1.666_805_8e-1;
    let p = p * f + 2.000_071_5e-1;
    let p = p * f - 2.499_999_4e-1;
    let p = p * f + 3.333_333e-1;
    let square = f * f;
    p * f * square - 0.5 * square + f + exponent * std::f32::consts::LN_2
}

/// Sine and cosine of a random angle: two bits choose the quadrant, the others the position within it.
#[inline(always)]
fn sin_cos_turn(bits: u32) -> (f32, f32) {
    let place = ((bits & 0x003f_ffff) as i32 as f32 + 0.5) * (1.0 / 4_194_304.0) - 0.5;
    let x = place * std::f32::consts::FRAC_PI_2;
    let s = x * x;
    let sin = x + x * s * (-1.666_665_5e-1 + s * (8.332_161e-3 - s * 1.951_529_6e-4));
    let cos = 1.0 - 0.5 * s + s * s * (4.166_664_6e-2 + s * (-1.388_731_6e-3 + s * 2.443_315_7e-5));
    let (odd, sign) = ((bits >> 30) & 1, (bits >> 31) << 31);
    let (a, b) = if odd == 1 { (cos, -sin) } else { (sin, cos) };
    (f32::from_bits(a.to_bits() ^ sign), f32::from_bits(b.to_bits() ^ sign))
}

/// The finaliser of SplitMix64.
fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A 32-bit hash with low bias (constants found by Wellons).
#[inline(always)]
fn scramble(mut x: u32) -> u32 {
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_standard_normal_and_independent_of_portions() {
        let stream = Stream::new(3, StreamPurpose::Weights, 1, 7, 0);
        let n = 1_000_000;
        let mut x = vec![0.0; n];
        stream.normals(0, &mut x);
        let moment = |power: i32| x.iter().map(|x| f64::from(*x).powi(power)).sum::<f64>() / n as f64;
        // Five standard errors of each.
        let errors = [moment(1), moment(2) - 1.0, moment(3), moment(4) - 3.0];
        assert!(errors.iter().zip([5e-3, 7.1e-3, 1.94e-2, 4.9e-2]).all(|(e, limit)| e.abs() < limit), "{errors:?}");
        let share = x.iter().filter(|x| x.abs() > 3.0).count() as f64 / n as f64;
        assert!((share - 2.7e-3).abs() < 2.6e-4, "{share}");
        // Neighbours, and the two numbers of a pair, are uncorrelated.
        for lag in [1, LANES, BLOCK] {
            let product: f64 = x.iter().zip(&x[lag..]).map(|(a, b)| f64::from(a * b)).sum::<f64>() / n as f64;
            let squares: f64 = x.iter().zip(&x[lag..]).map(|(a, b)| f64::from(a * a * b * b)).sum::<f64>() / n as f64;
            assert!(product.abs() < 5e-3 && (squares - 1.0).abs() < 1.5e-2, "{lag} {product} {squares}");
        }
        let mut part = vec![0.0; 77];
        stream.normals(3 * BLOCK, &mut part);
        assert_eq!(part, x[3 * BLOCK..3 * BLOCK + 77]);
        let mut other = vec![0.0; 64];
        Stream::new(3, StreamPurpose::Weights, 1, 8, 0).normals(0, &mut other);
        assert_ne!(other[..], x[..64]);
    }

    #[test]
    fn functions_are_accurate() {
        for i in 1..1000 {
            let u = i as f32 / 999.0;
            assert!((f64::from(ln(u)) - f64::from(u).ln()).abs() < 3e-7 * (1.0 + f64::from(u).ln().abs()), "{u}");
            let bits = (i as u32).wrapping_mul(4_294_967);
            let (sin, cos) = sin_cos_turn(bits);
            assert!((sin * sin + cos * cos - 1.0).abs() < 1e-6);
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn an_order_holds_every_row_once() {
        let mut order = vec![0; 1000];
        shuffle(&mut order, Stream::new(1, StreamPurpose::Order, 0, 0, 0));
        let first = order.clone();
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<u32>>());
        shuffle(&mut order, Stream::new(1, StreamPurpose::Order, 0, 1, 0));
        assert_ne!(first, order);
        shuffle(&mut order, Stream::new(1, StreamPurpose::Order, 0, 0, 0));
        assert_eq!(first, order);
    }
}
