//! What is refused, what is named, and what is passed on to the wrapped target.

use super::{EXACT_FULL, TermDensity, assert_close, block, cases, coordinates, gamma, normal, value};
use crate::target::{CurvatureSums, EvalOut, Points, Rows, Target};
use crate::transform::{Block, Constraint, Transformed};
use crate::workspace::Scratch;

#[test]
fn values_outside_are_errors_that_name_them() {
    let error = |constraint, x: &[f64]| {
        let density = TermDensity::new(x.iter().map(|_| normal(0.0, 1.0)).collect(), 0.0);
        let target = Transformed::new(density, vec![block("v", x.len(), constraint)]).unwrap();
        target.unconstrain(x, &mut vec![0.0; target.dim()]).unwrap_err().to_string()
    };
    assert!(error(Constraint::Free, &[f64::NAN]).contains("`v` is NaN, must be finite"));
    assert!(error(Constraint::Positive, &[1.0, 0.0]).contains("`v[1]` is 0, must be finite and above 0"));
    assert!(error(Constraint::Positive, &[f64::INFINITY]).contains("`v` is inf"));
    assert!(error(Constraint::LowerBound(2.0), &[1.0]).contains("above 2"));
    assert!(error(Constraint::UpperBound(2.0), &[3.0]).contains("below 2"));
    assert!(error(Constraint::Interval { low: 0.0, high: 1.0 }, &[0.5, 1.0]).contains("`v[1]` is 1, must be between"));
    assert!(error(Constraint::Simplex, &[0.5, -0.5, 1.0]).contains("`v[1]` is -0.5"));
    assert!(error(Constraint::Simplex, &[0.5, 0.6]).contains("`v` must be of sum 1"));
    assert!(error(Constraint::Ordered, &[0.5, 0.5, 1.0]).contains("`v[1]` is 0.5, must be finite and above the entry"));
}

#[test]
fn unusable_blocks_are_errors() {
    let error = |blocks: Vec<Block>| {
        let density = TermDensity::new(vec![normal(0.0, 1.0), normal(0.0, 1.0)], 0.0);
        Transformed::new(density, blocks).err().unwrap().to_string()
    };
    let free = |name, size| block(name, size, Constraint::Free);
    assert!(error(vec![free("a", 3)]).contains("blocks have 3 entries, the target has 2"));
    assert!(error(vec![free("a", 2), free("b", 0)]).contains("`b`: has no entries"));
    assert!(error(vec![free("a", 1), free("a", 1)]).contains("same name"));
    assert!(error(vec![free("a", 1), free("b", usize::MAX)]).contains("too large"));
    assert!(error(vec![block("a", 2, Constraint::LowerBound(f64::NAN))]).contains("not finite"));
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (-1e308, 1e308)] {
        assert!(error(vec![block("a", 2, Constraint::Interval { low, high })]).contains("no usable width"));
    }
    let constant = |name| block(name, 1, Constraint::Simplex);
    assert!(error(vec![constant("a"), constant("b")]).contains("nothing to infer"));
}

#[test]
fn names_and_parameters_are_on_the_constrained_scale() {
    let density = TermDensity::new((0..4).map(|_| normal(0.0, 1.0)).collect(), 0.0);
    let blocks = vec![block("sd", 1, Constraint::Positive), block("w", 3, Constraint::Simplex)];
    let target = Transformed::new(density, blocks).unwrap();
    assert_eq!(target.parameter_names(), ["sd", "w[0]", "w[1]", "w[2]"]);
    assert_eq!((target.dim(), target.num_rows()), (3, Some(7)));
    let mut parameters = [0.0; 4];
    target.to_parameters(&[2.0_f64.ln(), 0.0, 0.0], &mut parameters);
    for (parameter, expected) in parameters.iter().zip([2.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]) {
        assert_close(*parameter, expected, 1e-15);
    }
}

#[test]
fn a_minibatch_reaches_the_target() {
    let target = &cases()[1];
    let z = coordinates(target.dim(), 0);
    let mut log_p = [0.0];
    let out = EvalOut { log_p: &mut log_p, grad: None, curv: None };
    let rows = Rows::Subset(&[4, 1, 2]);
    target.eval(rows, Points::new(&z, target.dim()), out, &mut Scratch::default()).unwrap();
    assert_close(log_p[0] - value(target, &z), 3.0, 1e-14);
}

#[test]
fn what_the_target_lacks_is_not_offered() {
    let mut density = TermDensity::new(vec![gamma(3.0, 2.0)], 0.0);
    density.gradient = false;
    let target = Transformed::new(density, vec![block("x", 1, Constraint::Positive)]).unwrap();
    assert!(!target.has_gradient());
    assert!(target.curvatures().is_empty());
    assert_close(value(&target, &[0.0]), -2.0, 1e-15);
    let request = |grad: Option<&mut [f64]>, curv: Option<CurvatureSums<'_>>| {
        let out = EvalOut { log_p: &mut [0.0], grad, curv };
        target.eval(Rows::All, Points::new(&[0.0], 1), out, &mut Scratch::default())
    };
    assert!(request(Some(&mut [0.0]), None).is_err());
    let (kind, shape) = EXACT_FULL;
    assert!(request(None, Some(CurvatureSums { kind, shape, weights: &[1.0], sums: &mut [0.0] })).is_err());
}
