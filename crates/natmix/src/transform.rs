//! Constrained parameters: a density over positive, bounded, simplex or ordered values, transformed to one over `R^d`.
//!
//! A target that knows only a constrained vector `x` (a standard deviation, a probability, sorted cut points)
//! is wrapped as a [`Target`] over unconstrained `z`, by the change of variables
//!
//! - `log p(z) = log p(x(z)) + log |det J|`, with `J = dx/dz`,
//! - `grad log p(z) = J' g + grad log |det J|`, with `g` the gradient at `x`,
//! - `hess log p(z) = J' H J + sum_k g_k d2x_k/dz2 + hess log |det J|`, with `H` the Hessian at `x`.
//!
//! | constraint | map | coordinates |
//! |---|---|---|
//! | free | `x = z` | `size` |
//! | positive, lower or upper bound | `x = bound +- exp(z)` | `size` |
//! | interval | `x = low + (high - low) sigmoid(z)` | `size` |
//! | simplex | stick breaking, uniform at `z = 0` | `size - 1` |
//! | ordered | `x_0 = z_0`, `x_a = x_{a-1} + exp(z_a)` | `size` |
//!
//! A simplex is a set of `size - 1` dimensions: its density is one over all its entries but the last, as
//! usual for the Dirichlet.
//!
//! ```
//! use natmix::Scratch;
//! use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
//! use natmix::transform::{Block, Constraint, Transformed};
//!
//! /// An exponential density, `exp(-x)` for positive `x`.
//! struct Exponential;
//! impl Target for Exponential {
//!     fn dim(&self) -> usize { 1 }
//!     fn eval(&self, _: Rows<'_>, x: Points<'_>, out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
//!         for (log_p, x) in out.log_p.iter_mut().zip(x.data()) { *log_p = -x; }
//!         if let Some(grad) = out.grad { grad.fill(-1.0); }
//!         Ok(())
//!     }
//! }
//! let rate = Block { name: "rate".into(), size: 1, constraint: Constraint::Positive };
//! let target = Transformed::new(Exponential, vec![rate]).unwrap();
//!
//! let (mut log_p, mut grad) = ([0.0], [0.0]);
//! let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
//! target.eval(Rows::All, Points::new(&[0.0], 1), out, &mut Scratch::default()).unwrap();
//! assert_eq!((log_p[0], grad[0]), (-1.0, 0.0)); // at x = 1: -x + z, and -x + 1
//! ```

mod chart;
mod density;
mod interval;
mod ordered;
mod positive;
mod simplex;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::target::{Curvature, CurvatureShape, Target};
use chart::{Chart, Free, Outside};
use std::collections::HashSet;
use std::ops::Range;

/// The set that the entries of a [`Block`] live in. Its end points are excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constraint {
    /// All real numbers.
    Free,
    /// Numbers above zero.
    Positive,
    /// Numbers above this one.
    LowerBound(f64),
    /// Numbers below this one.
    UpperBound(f64),
    /// Numbers between two others.
    Interval {
        /// The lower end.
        low: f64,
        /// The upper end.
        high: f64,
    },
    /// Positive entries that sum to one.
    Simplex,
    /// Entries that increase strictly.
    Ordered,
}

impl Constraint {
    /// Unconstrained coordinates that `size` entries take.
    fn coordinates(self, size: usize) -> usize {
        if self == Constraint::Simplex { size.saturating_sub(1) } else { size }
    }

    /// The map of this constraint, or what is wrong with its numbers.
    fn chart(self) -> Result<Box<dyn Chart>, String> {
        let finite =
            |bound: f64| if bound.is_finite() { Ok(bound) } else { Err(format!("bound {bound} is not finite")) };
        Ok(match self {
            Constraint::Free => Box::new(Free),
            Constraint::Positive => Box::new(positive::HalfLine { bound: 0.0, sign: 1.0 }),
            Constraint::LowerBound(bound) => Box::new(positive::HalfLine { bound: finite(bound)?, sign: 1.0 }),
            Constraint::UpperBound(bound) => Box::new(positive::HalfLine { bound: finite(bound)?, sign: -1.0 }),
            Constraint::Interval { low, high } => {
                let width = finite(high)? - finite(low)?;
                if !(width > 0.0 && width.is_finite()) {
                    return Err(format!("interval from {low} to {high} has no usable width"));
                }
                Box::new(interval::Interval { low, high })
            }
            Constraint::Simplex => Box::new(simplex::Simplex),
            Constraint::Ordered => Box::new(ordered::Ordered),
        })
    }
}

/// A named run of neighbouring entries of the constrained vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its name, by which reports call its entries: `name`, or `name[0]`, `name[1]`, ... if there are several.
    pub name: String,
    /// Number of its constrained entries.
    pub size: usize,
    /// Where they live.
    pub constraint: Constraint,
}

impl Block {
    /// What reports call an entry.
    fn entry_name(&self, entry: usize) -> String {
        if self.size == 1 { self.name.clone() } else { format!("{}[{entry}]", self.name) }
    }
}

/// A block's map and the places of its coordinates in `z` and of its entries in `x`.
#[derive(Debug)]
struct Placed {
    chart: Box<dyn Chart>,
    z: Range<usize>,
    x: Range<usize>,
}

/// A target over constrained values, seen as one over unconstrained coordinates. See the [module page](self).
///
/// The Hessian is offered where the wrapped target has an exact one: weighted sums cannot be taken through a
/// Jacobian that differs from point to point, so a request for curvature evaluates the wrapped target **once per
/// point**, and not once for all points as every other request does. A diagonal one needs the wrapped
/// target's full Hessian too, unless each entry has a coordinate of its own (no simplex, nothing ordered).
///
/// A point whose value or derivatives are not finite (`exp(800)`, say) has NaN or minus infinity as its
/// `log_p`, and is left out of curvature sums.
#[derive(Debug)]
pub struct Transformed<T> {
    target: T,
    blocks: Vec<Block>,
    placed: Vec<Placed>,
    dim: usize,
    /// Whether every block maps entry by entry.
    elementwise: bool,
    curvatures: &'static [(Curvature, CurvatureShape)],
}

impl<T: Target> Transformed<T> {
    /// Wraps `target`, a density over the entries of all `blocks`, in their order.
    ///
    /// # Errors
    /// If the sizes do not add up to the dimension of `target`, or a block is empty, has the name of another or
    /// bounds that leave nothing between them.
    pub fn new(target: T, blocks: Vec<Block>) -> Result<Self, Error> {
        let (mut placed, mut names) = (Vec::with_capacity(blocks.len()), HashSet::new());
        let (mut dim, mut entries) = (0_usize, 0_usize);
        for Block { name, size, constraint } in &blocks {
            let invalid = |what: &str| Error::InvalidInput(format!("block `{name}`: {what}"));
            if *size == 0 {
                return Err(invalid("has no entries"));
            }
            if !names.insert(name) {
                return Err(invalid("another block has the same name"));
            }
            let chart = constraint.chart().map_err(|what| invalid(&what))?;
            let entries_end = entries.checked_add(*size).ok_or_else(|| invalid("is too large"))?;
            let dim_end = dim + constraint.coordinates(*size);
            placed.push(Placed { chart, z: dim..dim_end, x: entries..entries_end });
            (dim, entries) = (dim_end, entries_end);
        }
        if entries != target.dim() {
            let expected = target.dim();
            return Err(Error::InvalidInput(format!("blocks have {entries} entries, the target has {expected}")));
        }
        if dim == 0 {
            return Err(Error::InvalidInput(
                "blocks leave nothing to infer: a simplex of one entry is constant".into(),
            ));
        }
        let elementwise = placed.iter().all(|block| block.chart.is_elementwise());
        let curvatures = density::offered(&target, elementwise);
        Ok(Self { target, blocks, placed, dim, elementwise, curvatures })
    }

    /// The wrapped target.
    pub fn target(&self) -> &T {
        &self.target
    }

    /// The blocks, in the order of their entries.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Writes the constrained entries `x(z)` and returns `log |det dx/dz|`.
    ///
    /// # Panics
    /// If a slice does not have the length of its space.
    pub fn constrain(&self, z: &[f64], x: &mut [f64]) -> f64 {
        assert_eq!((z.len(), x.len()), (self.dim, self.target.dim()), "lengths of z and x");
        self.placed.iter().map(|block| block.chart.constrain(&z[block.z.clone()], &mut x[block.x.clone()])).sum()
    }

    /// Writes the coordinates `z` of constrained entries `x`, such as a starting point.
    ///
    /// # Errors
    /// If a slice has the wrong length, or an entry, then named, lies outside its constraint.
    pub fn unconstrain(&self, x: &[f64], z: &mut [f64]) -> Result<(), Error> {
        if (z.len(), x.len()) != (self.dim, self.target.dim()) {
            let (dim, entries) = (self.dim, self.target.dim());
            return Err(Error::InvalidInput(format!(
                "{} entries and {} coordinates, should be {entries} and {dim}",
                x.len(),
                z.len()
            )));
        }
        for (block, place) in self.blocks.iter().zip(&self.placed) {
            let x = &x[place.x.clone()];
            place.chart.unconstrain(x, &mut z[place.z.clone()]).map_err(|Outside { entry, must }| {
                Error::InvalidInput(match entry {
                    Some(i) => format!("`{}` is {}, must be {must}", block.entry_name(i), x[i]),
                    None => format!("`{}` must be {must}", block.name),
                })
            })?;
        }
        Ok(())
    }
}
