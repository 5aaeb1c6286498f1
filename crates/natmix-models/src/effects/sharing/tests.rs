use super::super::Family;
use super::super::tests::{FAMILIES, crossed, wave};
use super::*;
use crate::ranks::channels;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Target};
use std::thread;

/// Several sections, and a last block that is not full.
const ROWS: usize = 70_003;
/// More than two groups of lanes.
const POINTS: usize = 18;

fn model(family: Family) -> EffectsModel {
    EffectsModel::new(family, crossed(family, ROWS), &[]).unwrap()
}

/// Values, gradients and sums of Hessians at some points.
fn results(model: &EffectsModel, rows: Rows<'_>, n: usize) -> Vec<f64> {
    let dim = model.dim();
    let z: Vec<f64> = (0..n * dim).map(|at| 0.2 * wave(at)).collect();
    let mut all = Vec::new();
    // As many Hessians as can be had in the time of a test.
    let few = n.min(2);
    for shape in [CurvatureShape::Full, CurvatureShape::Diag] {
        let weights: Vec<f64> = (0..2 * few).map(|at| 0.3 - 0.2 * at as f64).collect();
        let mut sums = vec![0.0; 2 * shape.len(dim)];
        for (n, wanted) in [(n, false), (few, true)] {
            let (mut log_p, mut grad) = (vec![0.0; n], vec![0.0; n * dim]);
            let (kind, weights) = (Curvature::Exact, &weights[..]);
            let curv = wanted.then_some(CurvatureSums { kind, shape, weights, sums: &mut sums });
            let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv };
            model.eval(rows, Points::new(&z[..n * dim], dim), out, &mut Scratch::default()).unwrap();
            all.extend(log_p.into_iter().chain(grad));
        }
        all.extend(sums);
    }
    all
}

/// What rank 0 finds where threads share the rows.
fn together(family: Family, ranks: usize, n: usize) -> Vec<f64> {
    thread::scope(|scope| {
        let mut each = channels(ranks).into_iter().map(|communicator| {
            let ranks = Arc::new(Ranks::new(communicator));
            let mut model = model(family);
            model.share(ranks.clone());
            (ranks, model)
        });
        let (first, leader) = each.next().unwrap();
        for (ranks, model) in each {
            assert!(
                model.x.len() < 3 * ROWS * 2 / 3 && model.outcomes.y.len() < ROWS * 2 / 3,
                "it keeps its share only"
            );
            scope.spawn(move || ranks.serve(&model, None).unwrap());
        }
        let found = results(&leader, Rows::All, n);
        let minibatch = leader.eval(
            Rows::Subset(&[1, 2]),
            Points::new(&vec![0.0; leader.dim()], leader.dim()),
            EvalOut { log_p: &mut [0.0], grad: None, curv: None },
            &mut Scratch::default(),
        );
        assert!(minibatch.unwrap_err().to_string().contains("no minibatches"));
        first.stop();
        found
    })
}

#[test]
fn any_number_of_processes_has_the_bits_of_one() {
    for (family, n) in FAMILIES.into_iter().map(|family| (family, if family == Family::Linear { POINTS } else { 3 })) {
        let alone = results(&model(family), Rows::All, n);
        assert!(alone.iter().all(|x| x.is_finite()), "{family:?}");
        for ranks in [2, 3] {
            let found = together(family, ranks, n);
            let same = found.iter().map(|x| x.to_bits()).eq(alone.iter().map(|x| x.to_bits()));
            assert!(same, "{family:?}, {ranks} processes");
        }
    }
}

/// A minibatch of all rows is not cut into sections.
#[test]
fn sections_add_up_to_the_whole() {
    let all: Vec<u32> = (0..ROWS as u32).collect();
    for family in [Family::Ordinal { categories: 4 }, Family::NegativeBinomial] {
        let model = model(family);
        assert!(!model.in_one_section(Rows::All));
        let [by_section, at_once] = [Rows::All, Rows::Subset(&all)].map(|rows| results(&model, rows, 3));
        let size = at_once.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        for (a, b) in by_section.iter().zip(&at_once) {
            assert!((a - b).abs() < 1e-9 * size, "{family:?}: {a} {b}");
        }
    }
}
