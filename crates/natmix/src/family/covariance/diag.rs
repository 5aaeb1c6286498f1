//! A diagonal precision: the mean-field family, elementwise throughout.

/// A diagonal matrix with positive entries, held as itself and as its square root.
#[derive(Clone, Debug, PartialEq)]
pub struct Diag {
    prec: Vec<f64>,
    root: Vec<f64>,
}

impl Diag {
    /// From its entries; fails with the index of one that is not a positive number with a finite inverse.
    pub fn new(prec: Vec<f64>) -> Result<Self, usize> {
        match prec.iter().position(|x| !fits(*x)) {
            Some(bad) => Err(bad),
            None => Ok(Self { root: prec.iter().map(|x| x.sqrt()).collect(), prec }),
        }
    }
    /// Dimension.
    pub fn dim(&self) -> usize {
        self.prec.len()
    }
    /// The entries.
    pub fn entries(&self) -> &[f64] {
        &self.prec
    }
    /// Their square roots: the factor.
    pub fn root(&self) -> &[f64] {
        &self.root
    }
    /// `log det S`.
    pub fn log_det(&self) -> f64 {
        self.prec.iter().map(|x| x.ln()).sum()
    }

    /// Replaces the entries, if all are as [`Diag::new`] wants them; otherwise leaves everything as it was.
    pub(crate) fn set(&mut self, prec: &[f64]) -> Result<(), usize> {
        if let Some(bad) = prec.iter().position(|x| !fits(*x)) {
            return Err(bad);
        }
        for ((old, root), new) in self.prec.iter_mut().zip(&mut self.root).zip(prec) {
            *old = *new;
            *root = new.sqrt();
        }
        Ok(())
    }

    pub(crate) fn copy_from(&mut self, other: &Diag) {
        self.prec.copy_from_slice(&other.prec);
        self.root.copy_from_slice(&other.root);
    }

    /// `y = (z - mean) sqrt(S)` and its squared length, for transposed points.
    pub(crate) fn whiten(&self, y: &mut [f64], quad: &mut [f64], z: &[f64], mean: &[f64]) {
        let stride = quad.len();
        quad.fill(0.0);
        let coordinates = y.chunks_exact_mut(stride).zip(z.chunks_exact(stride)).zip(mean.iter().zip(&self.root));
        for ((y, z), (mean, root)) in coordinates {
            for ((y, z), quad) in y.iter_mut().zip(z).zip(quad.iter_mut()) {
                *y = (z - mean) * root;
                *quad += *y * *y;
            }
        }
    }

    /// `out += scale * y * sqrt(S)`, one scale a point, for transposed `y` and `out`.
    pub(crate) fn add_scaled_times_factor(&self, out: &mut [f64], scale: &[f64], y: &[f64]) {
        let stride = scale.len();
        for ((out, y), root) in out.chunks_exact_mut(stride).zip(y.chunks_exact(stride)).zip(&self.root) {
            for ((out, y), scale) in out.iter_mut().zip(y).zip(scale) {
                *out += scale * y * root;
            }
        }
    }
}

/// Whether a number can be a precision: the inverse of a smaller one than the normal ones may overflow.
fn fits(x: f64) -> bool {
    x > 0.0 && x.is_normal()
}
