//! What rank 0 asks of the others, and how a message says it.

use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, TargetError};

const CURVATURES: [Curvature; 3] = [Curvature::Exact, Curvature::GaussNewton, Curvature::EmpiricalFisher];
const SHAPES: [CurvatureShape; 2] = [CurvatureShape::Diag, CurvatureShape::Full];
/// Numbers before the points of a request.
const HEAD: usize = 6;

/// An evaluation over all rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Where.
    pub points: Points<'a>,
    /// Whether gradients are wanted.
    pub gradient: bool,
    /// Which curvature, and the weights of its sums.
    pub curvature: Option<(Curvature, CurvatureShape, &'a [f64])>,
}

impl<'a> Request<'a> {
    /// What `out` has room for.
    pub fn of(points: Points<'a>, out: &EvalOut<'a>) -> Self {
        let curvature = out.curv.as_ref().map(|curv| (curv.kind, curv.shape, curv.weights));
        Self { points, gradient: out.grad.is_some(), curvature }
    }

    /// As a message.
    pub fn message(&self, scratch: &mut Scratch) -> Vec<f64> {
        let (n, dim) = (self.points.len(), self.points.dim());
        let mut message = scratch.take_used(0);
        let (kind, shape, weights) = match self.curvature {
            None => (0, 0, &[][..]),
            Some((kind, shape, weights)) => (1 + position(&CURVATURES, kind), position(&SHAPES, shape), weights),
        };
        let head = [1.0, n as f64, dim as f64, f64::from(u8::from(self.gradient)), kind as f64, shape as f64];
        [&head[..], self.points.data(), weights].into_iter().for_each(|part| message.extend_from_slice(part));
        message
    }

    fn read(message: &'a [f64]) -> Option<Self> {
        let (head, rest) = message.split_at_checked(HEAD)?;
        let [n, dim, gradient, kind, shape] = [1, 2, 3, 4, 5].map(|at| head[at] as usize);
        let (points, weights) = rest.split_at_checked(n.checked_mul(dim.max(1))?)?;
        let curvature = match kind {
            0 => None,
            kind => Some((*CURVATURES.get(kind - 1)?, *SHAPES.get(shape)?, weights)),
        };
        (dim > 0 && n > 0 && weights.len().is_multiple_of(n)).then(|| Self {
            points: Points::new(points, dim),
            gradient: gradient == 1,
            curvature,
        })
    }

    /// Calls `evaluate` with the points and room for what is asked.
    pub fn with_room(
        &self,
        scratch: &mut Scratch,
        evaluate: impl FnOnce(Points<'_>, EvalOut<'_>, &mut Scratch) -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        let (n, dim) = (self.points.len(), self.points.dim());
        let mut log_p = scratch.take_used(n);
        let mut grad = scratch.take_used(if self.gradient { n * dim } else { 0 });
        let sums = self.curvature.map_or(0, |(_, shape, weights)| weights.len() / n * shape.len(dim));
        let mut sums = scratch.take_used(sums);
        let curv =
            self.curvature.map(|(kind, shape, weights)| CurvatureSums { kind, shape, weights, sums: &mut sums[..] });
        let out = EvalOut { log_p: &mut log_p, grad: self.gradient.then_some(&mut grad[..]), curv };
        let result = evaluate(self.points, out, scratch);
        [log_p, grad, sums].into_iter().for_each(|buffer| scratch.give(buffer));
        result
    }
}

/// What rank 0 wants.
#[derive(Debug)]
pub(super) enum Order<'a> {
    /// The sums of the rank's sections, in an evaluation.
    Evaluate(Request<'a>),
    /// Some of the rank's rows, by their numbers in the whole table.
    Send(&'a [f64]),
    /// Nothing more.
    Stop,
}

impl<'a> Order<'a> {
    /// The message that ends a fit.
    pub const STOP: [f64; 1] = [0.0];

    /// The message that asks for these rows; evaluations make theirs from their request.
    pub fn send(rows: impl Iterator<Item = usize>) -> Vec<f64> {
        std::iter::once(2.0).chain(rows.map(|row| row as f64)).collect()
    }

    pub fn read(message: &'a [f64]) -> Option<Self> {
        match message {
            [0.0, ..] => Some(Order::Stop),
            [1.0, ..] => Request::read(message).map(Order::Evaluate),
            [2.0, rows @ ..] => Some(Order::Send(rows)),
            _ => None,
        }
    }
}

fn position<T: PartialEq>(list: &[T], wanted: T) -> usize {
    list.iter().position(|item| *item == wanted).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_arrive_as_they_were_given() {
        let (z, weights) = ([0.5, -1.0, 2.0, 3.0], [0.25, 0.75]);
        let curvature = Some((Curvature::EmpiricalFisher, CurvatureShape::Full, &weights[..]));
        let request = Request { points: Points::new(&z, 2), gradient: true, curvature };
        let message = request.message(&mut Scratch::default());
        let Some(Order::Evaluate(read)) = Order::read(&message) else { panic!("not an evaluation") };
        assert_eq!((read.points.data(), read.gradient), (&z[..], true));
        assert_eq!(read.curvature.unwrap(), (Curvature::EmpiricalFisher, CurvatureShape::Full, &weights[..]));
        read.with_room(&mut Scratch::default(), |points, out, _| {
            assert_eq!((points.len(), out.log_p.len(), out.grad.unwrap().len()), (2, 2, 4));
            assert_eq!(out.curv.unwrap().sums.len(), 4);
            Ok(())
        })
        .unwrap();
        assert!(matches!(Order::read(&Order::send([7, 3].into_iter())), Some(Order::Send([7.0, 3.0]))));
        assert!(matches!(Order::read(&Order::STOP), Some(Order::Stop)));
    }

    #[test]
    fn damaged_orders_are_none() {
        for message in [&[][..], &[3.0], &[1.0, 1.0], &[1.0, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0]] {
            assert!(Order::read(message).is_none(), "{message:?}");
        }
    }
}
