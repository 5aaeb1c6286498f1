//! Reverse-mode differentiation: arithmetic is recorded, and read backwards for all derivatives of one number at once.
//!
//! Each step `v_k = f(v_i, v_j)` leaves its *edges*, the pairs `(i, dv_k/dv_i)`. From the last number `y` back to the
//! first, the adjoints `a_k = dy/dv_k` follow from `a_i += a_k dv_k/dv_i`, starting with `a_y = 1`. The cost is a
//! small multiple of the recorded arithmetic, whatever the dimension.
//!
//! With [`Dual`](super::Dual) numbers underneath, the adjoints are duals as well: their slopes along direction `l` are
//! column `l` of the Hessian (forward over reverse).
//!
//! ```
//! use natmix::autodiff::{Real, Tape};
//! let tape = Tape::default();
//! let (x, y) = (tape.variable(2.0), tape.variable(5.0));
//! let slopes = tape.adjoints(x * x * y + y.ln());
//! assert_eq!(slopes[..2], [20.0, 4.2]);
//! ```

use super::Density;
use super::real::{Real, Scalar, derivative_rules, derived_operators};
use std::cell::{Ref, RefCell};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A record of arithmetic on [`Var`]s.
#[derive(Debug)]
pub struct Tape<S: Scalar>(RefCell<TapeRecord<S>>);

#[derive(Debug)]
struct TapeRecord<S> {
    /// Node `k` owns the edges from `ends[k - 1]` (or 0) to `ends[k]`.
    ends: Vec<usize>,
    edges: Vec<Edge<S>>,
    adjoints: Vec<S>,
}

#[derive(Debug)]
struct Edge<S> {
    parent: usize,
    slope: S,
}

/// A number whose history is on a [`Tape`], or a constant, which needs none.
#[derive(Clone, Copy)]
pub struct Var<'t, S: Scalar> {
    /// Nothing for a constant.
    tape: Option<&'t Tape<S>>,
    node: usize,
    value: S,
}

impl<S: Scalar> Default for Tape<S> {
    fn default() -> Self {
        Self(RefCell::new(TapeRecord { ends: Vec::new(), edges: Vec::new(), adjoints: Vec::new() }))
    }
}

impl<S: Scalar> Tape<S> {
    /// Clears the record but keeps its memory.
    pub fn clear(&mut self) {
        let record = self.0.get_mut();
        record.ends.clear();
        record.edges.clear();
    }

    /// A new independent variable.
    pub fn variable(&self, value: S) -> Var<'_, S> {
        self.push(value, [])
    }

    /// The derivatives of `output` with respect to every recorded number in order, up to `output` itself: first the
    /// variables, if those were made first.
    pub fn adjoints(&self, output: Var<'_, S>) -> Ref<'_, [S]> {
        {
            let TapeRecord { ends, edges, adjoints } = &mut *self.0.borrow_mut();
            adjoints.clear();
            adjoints.resize(ends.len(), S::constant(0.0));
            if output.tape.is_some() {
                adjoints[output.node] = S::constant(1.0);
                for node in (0..=output.node).rev() {
                    let adjoint = adjoints[node];
                    // Saves time, and an infinite slope that does not matter cannot turn into NaN.
                    if adjoint.is_zero() {
                        continue;
                    }
                    let start = if node == 0 { 0 } else { ends[node - 1] };
                    for edge in &edges[start..ends[node]] {
                        adjoints[edge.parent] += adjoint * edge.slope;
                    }
                }
            }
        }
        Ref::map(self.0.borrow(), |record| record.adjoints.as_slice())
    }

    fn push(&self, value: S, edges: impl IntoIterator<Item = Edge<S>>) -> Var<'_, S> {
        let record = &mut *self.0.borrow_mut();
        record.edges.extend(edges);
        record.ends.push(record.edges.len());
        Var { tape: Some(self), node: record.ends.len() - 1, value }
    }
}

impl<'t, S: Scalar> Var<'t, S> {
    fn to(self, slope: S) -> Edge<S> {
        Edge { parent: self.node, slope }
    }

    fn chain(self, value: S, slope: S) -> Self {
        match self.tape {
            Some(tape) => tape.push(value, [self.to(slope)]),
            None => Self { value, ..self },
        }
    }

    fn join(self, slope: S, other: Self, other_slope: S, value: S) -> Self {
        match (self.tape, other.tape) {
            (Some(tape), Some(_)) => tape.push(value, [self.to(slope), other.to(other_slope)]),
            (_, None) => self.chain(value, slope),
            (None, _) => other.chain(value, other_slope),
        }
    }
}

/// Without the tape, which may be long.
impl<S: Scalar> fmt::Debug for Var<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Var").field("node", &self.tape.map(|_| self.node)).field("value", &self.value).finish()
    }
}

impl<S: Scalar> Add for Var<'_, S> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let value = self.value + other.value;
        match (self.tape, other.tape) {
            // A shift by a constant has slope 1: the node of the moved number serves the sum as well.
            (_, None) => Self { value, ..self },
            (None, _) => Self { value, ..other },
            _ => self.join(S::constant(1.0), other, S::constant(1.0), value),
        }
    }
}

impl<S: Scalar> Sub for Var<'_, S> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let value = self.value - other.value;
        match other.tape {
            None => Self { value, ..self },
            _ => self.join(S::constant(1.0), other, S::constant(-1.0), value),
        }
    }
}

derived_operators!([S: Scalar] Var<'_, S>);

impl<S: Scalar> Real for Var<'_, S> {
    fn constant(value: f64) -> Self {
        Self { tape: None, node: 0, value: S::constant(value) }
    }
    fn value(self) -> f64 {
        self.value.value()
    }
    derivative_rules!();

    /// One node, instead of two for each term.
    fn dot(coefficients: &[f64], x: &[Self]) -> Self {
        assert_eq!(coefficients.len(), x.len(), "as many coefficients as numbers");
        let terms = || coefficients.iter().zip(x);
        let value = terms().fold(S::constant(0.0), |sum, (&c, x)| sum + x.value * c);
        match x.iter().find_map(|x| x.tape) {
            Some(tape) => {
                tape.push(value, terms().filter(|(_, x)| x.tape.is_some()).map(|(&c, x)| x.to(S::constant(c))))
            }
            None => Self { tape: None, node: 0, value },
        }
    }
}

/// A tape and the variables to start it with, kept from point to point.
pub(super) struct Recorder<S: Scalar> {
    tape: Tape<S>,
    /// Empty between points.
    inputs: Vec<Var<'static, S>>,
}

impl<S: Scalar> Default for Recorder<S> {
    fn default() -> Self {
        Self { tape: Tape::default(), inputs: Vec::new() }
    }
}

impl<S: Scalar> Recorder<S> {
    /// `log p` at the point with coordinates `z`, and its derivatives, first those with respect to the coordinates.
    pub(super) fn differentiate<D: Density>(&mut self, density: &D, z: impl Iterator<Item = S>) -> (S, Ref<'_, [S]>) {
        self.tape.clear();
        let mut inputs = emptied(std::mem::take(&mut self.inputs));
        inputs.extend(z.map(|z| self.tape.variable(z)));
        let log_p = density.log_p(&inputs);
        self.inputs = emptied(inputs);
        (log_p.value, self.tape.adjoints(log_p))
    }
}

/// The same memory for variables of another tape: collecting a vector's own items reuses its allocation.
fn emptied<'b, S: Scalar>(vars: Vec<Var<'_, S>>) -> Vec<Var<'b, S>> {
    vars.into_iter().map_while(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Dual;
    use super::*;

    #[test]
    fn constants_need_no_tape() {
        let constant = (Var::<f64>::constant(2.0) * 3.0 + Var::constant(1.0)).ln() / Var::constant(2.0);
        assert_eq!((constant.value(), constant.tape.is_none()), (7_f64.ln() / 2.0, true));
        let tape = Tape::default();
        let x = tape.variable(2.0);
        assert_eq!(tape.adjoints(constant)[..], [0.0]);
        assert_eq!(tape.adjoints(Var::constant(1.0) - x * Var::constant(3.0))[0], -3.0);
        assert_eq!(tape.adjoints(Var::constant(1.0) / x + 5.0)[0], -0.25);
        assert_eq!(tape.adjoints(x)[0], 1.0);
    }

    #[test]
    fn a_sweep_over_duals_gives_a_hessian_column() {
        let tape = Tape::default();
        let (x, y) = (tape.variable(Dual::<1>::along(2.0, 0)), tape.variable(Dual::constant(3.0)));
        let adjoints = tape.adjoints(x * x * x * y);
        assert_eq!((adjoints[0].value, adjoints[0].slopes), (36.0, [36.0]));
        assert_eq!((adjoints[1].value, adjoints[1].slopes), (8.0, [12.0]));
    }

    #[test]
    fn a_zero_adjoint_stops_an_infinite_slope() {
        let tape = Tape::default();
        let x = tape.variable(0.0);
        assert_eq!(tape.adjoints(x.sqrt() * 0.0 + x)[0], 1.0);
    }

    #[test]
    fn memory_is_kept_between_points() {
        struct Sines;
        impl Density for Sines {
            fn dim(&self) -> usize {
                40
            }
            fn log_p<R: Real>(&self, z: &[R]) -> R {
                z.iter().map(|z| z.sin()).sum()
            }
        }
        let mut recorder = Recorder::<f64>::default();
        let mut memory = Vec::new();
        for _ in 0..3 {
            let (log_p, adjoints) = recorder.differentiate(&Sines, (0..40).map(f64::from));
            assert!(log_p.is_finite() && adjoints[1] == 1_f64.cos());
            drop(adjoints);
            let record = recorder.tape.0.borrow();
            memory.push((recorder.inputs.as_ptr().addr(), record.ends.as_ptr().addr(), record.edges.as_ptr().addr()));
        }
        assert!(recorder.inputs.capacity() >= 40);
        assert_eq!(memory[1], memory[0]);
        assert_eq!(memory[2], memory[0]);
    }
}
