//! A mixture of multivariate Student t distributions: many modes with heavy tails.
//!
//! Component `k` has location `m_k`, scale matrix `C_k = L L'`, precision `P = C_k^-1` and `df` degrees of freedom.
//! With `a = P (z - m_k)`, `Q = |L^-1 (z - m_k)|^2` and `s = (df + d) / (df + Q)`,
//!
//! ```text
//! log t_k = log G((df + d)/2) - log G(df/2) - d/2 log(df pi) - log det L - (df + d)/2 log(1 + Q/df)
//! grad log t_k = -s a
//! hess log t_k = -s P + 2 s / (df + Q) a a'
//! ```
//!
//! and the mixture, with the components' shares `r_k` and gradients `g_k`, has `grad = g = sum_k r_k g_k` and
//! `hess = sum_k r_k (hess log t_k + (g_k - g)(g_k - g)')`.
//!
//! ```
//! use natmix::target::log_p_at;
//! use natmix_models::densities::StudentMixture;
//!
//! // With two degrees of freedom the density at the centre is 1 / sqrt(8).
//! let student = StudentMixture::new(2.0, &[1.0], &[vec![3.0]], &[vec![vec![1.0]]]).unwrap();
//! assert!((log_p_at(&student, &[3.0]).unwrap() + 0.5 * 8f64.ln()).abs() < 1e-12);
//! ```

use super::{NEGLIGIBLE_SHARE, add_gradient_spread, check, shares_of};
use natmix::Error;
use natmix::Scratch;
use natmix::target::pointwise::{EXACT, Hessian, eval_points};
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};

/// A normalised mixture of Student t distributions. See the [module page](self).
#[derive(Clone, Debug)]
pub struct StudentMixture {
    dim: usize,
    df: f64,
    components: Vec<StudentComponent>,
}

#[derive(Clone, Debug)]
struct StudentComponent {
    /// Logarithm of weight times density at the location.
    log_peak: f64,
    location: Vec<f64>,
    /// `L^-1`, transposed: row `j` holds its column `j`, which begins with `j` zeros.
    whitening: Vec<f64>,
    precision: Vec<f64>,
}

/// Work space for one point, component by component.
struct StudentWork<'a> {
    shares: &'a mut [f64],
    /// `Q`.
    squares: &'a mut [f64],
    /// `L^-1 (z - m)`.
    whitened: &'a mut [f64],
    component_grads: &'a mut [f64],
    grad: &'a mut [f64],
}

impl StudentMixture {
    /// A mixture with a weight, location and symmetric scale matrix per component, and `df` degrees of freedom for all.
    pub fn new(df: f64, weights: &[f64], locations: &[Vec<f64>], scales: &[Vec<Vec<f64>>]) -> Result<Self, Error> {
        check::positive("df", &[df], 1)?;
        let weights = check::weights(weights)?;
        check::count("locations", locations.len(), weights.len())?;
        check::count("scales", scales.len(), weights.len())?;
        let dim = check::dim(locations[0].len())?;
        let half_dim = 0.5 * dim as f64;
        let log_peak = ln_gamma_ratio(0.5 * df, half_dim) - half_dim * (df * std::f64::consts::PI).ln();
        let mut components = Vec::with_capacity(weights.len());
        for (k, ((weight, location), scale)) in weights.iter().zip(locations).zip(scales).enumerate() {
            check::finite(&format!("locations[{k}]"), location, dim)?;
            let factor = check::cholesky(&format!("scales[{k}]"), scale, dim)?;
            let log_det: f64 = factor.iter().step_by(dim + 1).map(|pivot| pivot.ln()).sum();
            let whitening = transposed_inverse(&factor, dim);
            let precision = (0..dim * dim)
                .map(|e| dot(&whitening[e / dim * dim..][..dim], &whitening[e % dim * dim..][..dim]))
                .collect();
            let log_peak = log_peak + weight.ln() - log_det;
            components.push(StudentComponent { log_peak, location: location.clone(), whitening, precision });
        }
        Ok(Self { dim, df, components })
    }

    fn at(
        &self,
        z: &[f64],
        grad: Option<&mut [f64]>,
        hess: Option<&mut Hessian<'_>>,
        work: &mut StudentWork<'_>,
    ) -> f64 {
        let (d, power) = (self.dim, self.df + self.dim as f64);
        for (k, component) in self.components.iter().enumerate() {
            let whitened = &mut work.whitened[k * d..(k + 1) * d];
            component.whiten(z, whitened);
            let square = dot(whitened, whitened);
            work.squares[k] = square;
            work.shares[k] = component.log_peak - 0.5 * power * (square / self.df).ln_1p();
        }
        let log_p = shares_of(work.shares);
        if grad.is_none() && hess.is_none() {
            return log_p;
        }
        work.grad.fill(0.0);
        for (k, component) in self.components.iter().enumerate() {
            let share = work.shares[k];
            if share > NEGLIGIBLE_SHARE {
                let slope = power / (self.df + work.squares[k]);
                let whitened = &work.whitened[k * d..(k + 1) * d];
                for (j, g_k) in work.component_grads[k * d..(k + 1) * d].iter_mut().enumerate() {
                    *g_k = -slope * dot(&component.whitening[j * d + j..(j + 1) * d], &whitened[j..]);
                    work.grad[j] += share * *g_k;
                }
            }
        }
        if let Some(grad) = grad {
            grad.copy_from_slice(work.grad);
        }
        if let Some(hess) = hess {
            for (k, component) in self.components.iter().enumerate() {
                let share = work.shares[k];
                if share > NEGLIGIBLE_SHARE {
                    let slope = power / (self.df + work.squares[k]);
                    hess.add_matrix(-share * slope, &component.precision);
                    // 2 s / (df + Q) a a' in terms of the gradient -s a.
                    hess.add_outer(2.0 * share / power, &work.component_grads[k * d..(k + 1) * d]);
                }
            }
            add_gradient_spread(work.shares, work.component_grads, work.grad, hess);
        }
        log_p
    }
}

impl StudentComponent {
    fn whiten(&self, z: &[f64], whitened: &mut [f64]) {
        let d = z.len();
        whitened.fill(0.0);
        for (j, (z, m)) in z.iter().zip(&self.location).enumerate() {
            let difference = z - m;
            let column = &self.whitening[j * d + j..(j + 1) * d];
            whitened[j..].iter_mut().zip(column).for_each(|(y, w)| *y += difference * w);
        }
    }
}

impl Target for StudentMixture {
    fn dim(&self) -> usize {
        self.dim
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (d, k) = (self.dim, self.components.len());
        let mut buffer = scratch.take(2 * k + 2 * k * d + d);
        let (shares, rest) = buffer.split_at_mut(k);
        let (squares, rest) = rest.split_at_mut(k);
        let (whitened, rest) = rest.split_at_mut(k * d);
        let (component_grads, grad) = rest.split_at_mut(k * d);
        let mut work = StudentWork { shares, squares, whitened, component_grads, grad };
        let result = eval_points(d, z, out, scratch, |z, grad, hess| Ok(self.at(z, grad, hess, &mut work)));
        scratch.give(buffer);
        result
    }
    fn gradient_is_tested(&self) -> bool {
        true
    }
    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        EXACT
    }
}

/// `a'b` in eight partial sums, which the compiler can keep in vector registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_blocks, a_rest) = a.as_chunks::<8>();
    let (b_blocks, b_rest) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f64>() + rest
}

/// The transposed inverse of a lower triangular matrix.
fn transposed_inverse(factor: &[f64], dim: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; dim * dim];
    for (j, column) in inverse.chunks_exact_mut(dim).enumerate() {
        for i in j..dim {
            let row = &factor[i * dim..(i + 1) * dim];
            let unit = if i == j { 1.0 } else { 0.0 };
            column[i] = (unit - dot(&row[j..i], &column[j..i])) / row[i];
        }
    }
    inverse
}

/// `log(G(x + h) / G(x))` for positive `x` and `h`, from Stirling's series.
///
/// A difference of two values of `log G` would cancel completely for many degrees of freedom.
fn ln_gamma_ratio(mut x: f64, h: f64) -> f64 {
    let mut result = 0.0;
    while x < 16.0 {
        result += (x / (x + h)).ln();
        x += 1.0;
    }
    let tail = |x: f64| {
        let y = 1.0 / (x * x);
        (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x
    };
    result + (x - 0.5) * (h / x).ln_1p() + h * (x + h).ln() - h + tail(x + h) - tail(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::densities::derivatives::{Uniform, check_derivatives};
    use crate::prior::LOG_TAU;
    use natmix::target::log_p_at;

    fn two_in_three_dimensions() -> StudentMixture {
        let scales = [
            vec![vec![2.0, 0.3, -0.2], vec![0.3, 1.0, 0.1], vec![-0.2, 0.1, 0.5]],
            vec![vec![0.4, 0.0, 0.1], vec![0.0, 3.0, 0.5], vec![0.1, 0.5, 1.0]],
        ];
        StudentMixture::new(2.5, &[0.3, 0.7], &[vec![0.0, 1.0, -1.0], vec![1.5, 0.0, 1.0]], &scales).unwrap()
    }

    #[test]
    fn derivatives() {
        check_derivatives(&two_in_three_dimensions(), &Uniform(4).points(20, 3, 3.0), 1e-3);
        // More than one block of `dot`, and a component without weight.
        let scale: Vec<Vec<f64>> = (0..11).map(|i| (0..11).map(|j| 0.5f64.powi(i32::abs(i - j))).collect()).collect();
        let locations = [vec![0.5; 11], vec![-0.5; 11], vec![0.0; 11]];
        let mixture = StudentMixture::new(4.0, &[0.5, 0.5, 0.0], &locations, &[scale.clone(), scale.clone(), scale]);
        check_derivatives(&mixture.unwrap(), &Uniform(5).points(6, 11, 1.0), 1e-3);
    }

    #[test]
    fn closed_forms_in_one_dimension() {
        let (location, sd) = (0.7, 1.3);
        let one = |df| StudentMixture::new(df, &[1.0], &[vec![location]], &[vec![vec![sd * sd]]]).unwrap();
        for z in [-30.0, -1.0, 0.7, 2.0] {
            let t: f64 = (z - location) / sd;
            let cauchy = -(std::f64::consts::PI * sd * (1.0 + t * t)).ln();
            let two = -(8f64.sqrt() * sd).ln() - 1.5 * (1.0 + t * t / 2.0).ln();
            let normal = -0.5 * (LOG_TAU + t * t) - sd.ln();
            for (df, expected, tolerance) in [(1.0, cauchy, 1e-13), (2.0, two, 1e-13), (1e12, normal, 1e-6)] {
                let found = log_p_at(&one(df), &[z]).unwrap();
                assert!((found - expected).abs() < tolerance, "df {df}, z {z}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn integrates_to_one() {
        let locations = [vec![-2.0], vec![3.0]];
        let mixture = StudentMixture::new(2.0, &[0.4, 0.6], &locations, &[vec![vec![0.5]], vec![vec![2.0]]]).unwrap();
        let (h, mut integral) = (0.01, 0.0);
        // z = sinh(u): the tails die out exponentially in u.
        for i in -2500..=2500 {
            let u = h * f64::from(i);
            integral += h * u.cosh() * log_p_at(&mixture, &[u.sinh()]).unwrap().exp();
        }
        assert!((integral - 1.0).abs() < 1e-12, "{integral}");
    }

    #[test]
    fn gamma_ratios() {
        // G(1/2) = sqrt(pi) and G(x + 1) = x G(x).
        let half = ln_gamma_ratio(0.5, 0.5) + 0.5 * std::f64::consts::PI.ln();
        assert!(half.abs() < 1e-14, "{half}");
        assert!((ln_gamma_ratio(1.0, 4.0) - 24f64.ln()).abs() < 1e-14);
        let product: f64 = (30..35).map(|i| f64::from(i).ln()).sum();
        assert!((ln_gamma_ratio(30.0, 5.0) - product).abs() < 1e-13);
        assert!((ln_gamma_ratio(1e9, 2.0) - 1e9f64.ln() - (1e9f64 + 1.0).ln()).abs() < 1e-12);
    }

    #[test]
    fn distant_points_have_density_zero_and_nan_stays_nan() {
        let mixture = two_in_three_dimensions();
        assert!(log_p_at(&mixture, &[1e100, 0.0, 0.0]).unwrap().is_finite());
        assert_eq!(log_p_at(&mixture, &[1e200, 0.0, 0.0]).unwrap(), f64::NEG_INFINITY);
        assert!(log_p_at(&mixture, &[f64::NAN, 0.0, 0.0]).unwrap().is_nan());
    }

    #[test]
    fn bad_input_is_refused() {
        let one = [vec![vec![1.0]]];
        assert!(StudentMixture::new(0.0, &[1.0], &[vec![0.0]], &one).is_err());
        assert!(StudentMixture::new(2.0, &[], &[], &[]).is_err());
        assert!(StudentMixture::new(2.0, &[1.0], &[], &one).is_err());
        assert!(StudentMixture::new(2.0, &[1.0], &[vec![0.0]], &[]).is_err());
        assert!(StudentMixture::new(2.0, &[1.0], &[vec![]], &[vec![]]).is_err());
        assert!(StudentMixture::new(2.0, &[1.0], &[vec![f64::NAN]], &one).is_err());
        let error = StudentMixture::new(2.0, &[1.0], &[vec![0.0]], &[vec![vec![-1.0]]]).unwrap_err();
        assert_eq!(error.to_string(), "scales[0] is not positive definite (pivot 0), as a covariance must be");
    }
}
