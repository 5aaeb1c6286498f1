//! Elementwise updates of a step, vectorised over weights.
//!
//! With `g` and `h` the gradient and the positive curvature of the log likelihood (scaled to all rows), prior precision `l`,
//! warm-up `c` and curvature rate `b2`:
//!
//! ```text
//! g' = g - c l m            G = h + c (l - S)          (minus the mixture's terms, where components overlap)
//! v <- b1 v + (1 - b1) g'
//! S <- max(S + b2 G, S / 2)                            VOGN
//! S <- S + b2 G + b2^2 G^2 / (2 S)                     IVON, whose h = -S (w - m) g comes from Stein's identity
//! m <- m + rate / (1 - b1^t) * v / (S + damping)
//! ```
//!
//! Adam keeps its two moments where VOGN keeps velocity and precision.

use super::noise::Stream;
use pulp::{Arch, Simd, WithSimd};

/// Slices of one component's mean, precision and velocity for the same weights.
pub(crate) struct WeightPart<'a> {
    pub mean: &'a mut [f32],
    pub prec: &'a mut [f32],
    pub velocity: &'a mut [f32],
}

/// The constants of a step for all weights of a layer.
#[derive(Clone, Copy)]
pub(crate) struct NaturalStepConstants {
    /// Step size with the bias correction of momentum.
    pub rate: f32,
    pub momentum: f32,
    pub curvature_rate: f32,
    pub damping: f32,
    pub prior: f32,
    pub warm_up: f32,
    /// Whether the curvature came from Stein's identity, which uses the improved step.
    pub stein: bool,
}

/// Derivatives of `log q` minus those of the component itself, where components overlap.
#[derive(Clone, Copy)]
pub(crate) struct Overlap<'a> {
    pub grad: &'a [f32],
    pub hess: &'a [f32],
}

macro_rules! vectorised {
    ($name:ident<$life:lifetime>($($field:ident: $kind:ty),*) $body:block) => {{
        // A separate type: a closure would be compiled without the vector instructions.
        struct $name<$life>($($kind),*);
        impl<$life> WithSimd for $name<$life> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let Self($($field),*) = self;
                $body
            }
        }
        Arch::new().dispatch($name($($field),*));
    }};
}

/// `w = m + e / sqrt S` with `e` standard normal; `first` is the index of the first weight.
pub(crate) fn draw(w: &mut [f32], mean: &[f32], prec: &[f32], stream: Stream, first: usize) {
    stream.normals(first, w);
    vectorised!(Draw<'a>(w: &'a mut [f32], mean: &'a [f32], prec: &'a [f32]) {
        for (w, (m, s)) in w.iter_mut().zip(mean.iter().zip(prec)) {
            *w = *m + *w / s.sqrt();
        }
    });
}

/// Adds the curvature from Stein's identity, computed from a gradient, to `curvature`.
pub(crate) fn add_stein(curvature: &mut [f32], grad: &[f32], w: &[f32], mean: &[f32], prec: &[f32]) {
    vectorised!(Stein<'a>(curvature: &'a mut [f32], grad: &'a [f32], w: &'a [f32], mean: &'a [f32], prec: &'a [f32]) {
        for ((h, g), ((w, m), s)) in curvature.iter_mut().zip(grad).zip(w.iter().zip(mean).zip(prec)) {
            *h -= *s * (*w - *m) * *g;
        }
    });
}

/// The step of VOGN or IVON.
pub(crate) fn natural(
    part: WeightPart<'_>,
    grad: &[f32],
    curvature: &[f32],
    overlap: Option<Overlap<'_>>,
    numbers: NaturalStepConstants,
) {
    let WeightPart { mean, prec, velocity } = part;
    if let Some(overlap) = overlap {
        vectorised!(Mixed<'a>(
            mean: &'a mut [f32], prec: &'a mut [f32], velocity: &'a mut [f32],
            grad: &'a [f32], curvature: &'a [f32], overlap: Overlap<'a>, numbers: NaturalStepConstants
        ) {
            let weights = mean.iter_mut().zip(prec).zip(velocity).zip(grad.iter().zip(curvature));
            for ((((m, s), v), (g, h)), (q, c)) in weights.zip(overlap.grad.iter().zip(overlap.hess)) {
                let c_ = numbers.warm_up;
                one(m, s, v, *g - c_ * *q, *h + c_ * *c, numbers);
            }
        });
    } else {
        vectorised!(Alone<'a>(
            mean: &'a mut [f32], prec: &'a mut [f32], velocity: &'a mut [f32],
            grad: &'a [f32], curvature: &'a [f32], numbers: NaturalStepConstants
        ) {
            let weights = mean.iter_mut().zip(prec).zip(velocity).zip(grad.iter().zip(curvature));
            for (((m, s), v), (g, h)) in weights {
                one(m, s, v, *g, *h, numbers);
            }
        });
    }
}

#[inline(always)]
fn one(m: &mut f32, s: &mut f32, v: &mut f32, g: f32, h: f32, n: NaturalStepConstants) {
    let g = g - n.warm_up * n.prior * *m;
    let change = h + n.warm_up * (n.prior - *s);
    *v = n.momentum * *v + (1.0 - n.momentum) * g;
    let step = n.curvature_rate * change;
    let new = if n.stein { *s + step + 0.5 * step * step / *s } else { (*s + step).max(0.5 * *s) };
    *s = new;
    *m += n.rate * *v / (new + n.damping);
}

/// Adam's settings.
#[derive(Clone, Copy)]
pub(crate) struct AdamConstants {
    /// Step size with both bias corrections.
    pub rate: f32,
    /// Share of each weight that a step subtracts, separate from the gradient (AdamW).
    pub decay: f32,
    /// Factor that turns gradients into those of the mean over rows.
    pub scale: f32,
    /// Added to the root of the second moment, with the same bias correction.
    pub floor: f32,
}

/// Decay rates of Adam's moments.
pub(crate) const ADAM: (f32, f32) = (0.9, 0.999);

/// Adam's step, with its moments in `velocity` and `prec`.
pub(crate) fn adam(part: WeightPart<'_>, grad: &[f32], numbers: AdamConstants) {
    let WeightPart { mean, prec, velocity } = part;
    vectorised!(Adam<'a>(
        mean: &'a mut [f32], prec: &'a mut [f32], velocity: &'a mut [f32], grad: &'a [f32], numbers: AdamConstants
    ) {
        for (((m, s), v), g) in mean.iter_mut().zip(prec).zip(velocity).zip(grad) {
            let g = numbers.scale * *g;
            *v = ADAM.0 * *v + (1.0 - ADAM.0) * g;
            *s = ADAM.1 * *s + (1.0 - ADAM.1) * g * g;
            *m += numbers.rate * *v / (s.sqrt() + numbers.floor) - numbers.decay * *m;
        }
    });
}

/// `sum += x`.
pub(crate) fn add(sum: &mut [f32], x: &[f32]) {
    vectorised!(Add<'a>(sum: &'a mut [f32], x: &'a [f32]) {
        for (sum, x) in sum.iter_mut().zip(x) {
            *sum += *x;
        }
    });
}

/// `out = x * x`.
pub(crate) fn square(out: &mut [f32], x: &[f32]) {
    vectorised!(Square<'a>(out: &'a mut [f32], x: &'a [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x * *x;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::noise::StreamPurpose;

    #[test]
    fn steps_by_hand() {
        let numbers = NaturalStepConstants {
            rate: 0.5,
            momentum: 0.5,
            curvature_rate: 0.1,
            damping: 1.0,
            prior: 2.0,
            warm_up: 1.0,
            stein: false,
        };
        let step = |numbers, h: f32, overlap: Option<Overlap<'_>>| {
            let (mut mean, mut prec, mut velocity) = ([1.0], [10.0], [4.0]);
            let part = WeightPart { mean: &mut mean, prec: &mut prec, velocity: &mut velocity };
            natural(part, &[8.0], &[h], overlap, numbers);
            [mean[0], prec[0], velocity[0]]
        };
        // g' = 8 - 2 = 6, v = 5; G = 20 + 2 - 10 = 12, S = 11.2; m = 1 + 0.5 * 5 / 12.2.
        assert_eq!(step(numbers, 20.0, None), [1.0 + 2.5 / 12.2, 11.2, 5.0]);
        // The floor.
        assert_eq!(step(numbers, -1000.0, None)[1], 5.0);
        // The improved step: 10 - 100.8 + 100.8^2 / 20.
        let improved = step(NaturalStepConstants { stein: true, ..numbers }, -1000.0, None)[1];
        assert!((improved - (10.0 - 100.8 + 100.8 * 100.8 / 20.0)).abs() < 1e-3, "{improved}");
        // Terms of the mixture: g' = 6 - 1, G = 12 + 3.
        let overlap = Overlap { grad: &[1.0], hess: &[3.0] };
        assert_eq!(step(numbers, 20.0, Some(overlap)), [1.0 + 0.5 * 4.5 / 12.5, 11.5, 4.5]);
        // Warm-up at zero: no prior, no entropy.
        assert_eq!(step(NaturalStepConstants { warm_up: 0.0, ..numbers }, 20.0, None)[1], 12.0);
    }

    #[test]
    fn draws_have_the_component_s_spread() {
        let n = 64 * 1000;
        let (mut w, mean, prec) = (vec![0.0; n], vec![3.0; n], vec![4.0; n]);
        draw(&mut w, &mean, &prec, Stream::new(1, StreamPurpose::Weights, 0, 0, 0), 0);
        let average = w.iter().sum::<f32>() / n as f32;
        let variance = w.iter().map(|w| (w - 3.0).powi(2)).sum::<f32>() / n as f32;
        assert!((average - 3.0).abs() < 0.01 && (variance - 0.25).abs() < 0.008, "{average} {variance}");
        // Stein's identity on the gradient of a Gaussian of precision 7: -S (w - m) g averages to 7.
        let grad: Vec<f32> = w.iter().map(|w| -7.0 * (w - 3.0)).collect();
        let mut h = vec![0.0; n];
        add_stein(&mut h, &grad, &w, &mean, &prec);
        let h = h.iter().sum::<f32>() / n as f32;
        assert!((h - 7.0).abs() < 0.2, "{h}");
    }
}
