use super::*;
use crate::target::{ClosureTarget, CurvatureSums, EvalOut, Points};
use crate::workspace::Scratch;

/// `log p = -z^2 / 2`, zero density above 3, no gradient below -3; curvature that is NaN at 2, even with weight zero.
struct Parabola {
    whole: bool,
}

impl Target for Parabola {
    fn dim(&self) -> usize {
        1
    }
    fn whole_batches(&self) -> bool {
        self.whole
    }
    fn eval(&self, _: Rows<'_>, z: Points<'_>, mut out: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        for (i, z) in z.data().iter().enumerate() {
            out.log_p[i] = if *z > 3.0 { f64::NEG_INFINITY } else { -0.5 * z * z };
            if let Some(grad) = &mut out.grad {
                grad[i] = if *z < -3.0 { f64::NAN } else { -z };
            }
        }
        if let Some(CurvatureSums { weights, sums, .. }) = out.curv {
            for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(z.len())) {
                *sum = z.data().iter().zip(weights).map(|(z, w)| w * if *z == 2.0 { f64::NAN } else { -1.0 }).sum();
            }
        }
        Ok(())
    }
}

fn target() -> Parabola {
    Parabola { whole: false }
}

fn request(curvature: bool) -> Request {
    Request {
        gradient: true,
        curvature: curvature.then_some((Curvature::Exact, CurvatureShape::Full)),
        sums_per_chunk: 2,
        repeat_without_failed: true,
        ..Request::default()
    }
}

/// Parts with these points in chunks of two; the sums weigh points by one, and by their number in the chunk.
fn batch(parts: &[&[f64]], request: &Request) -> Batch {
    let part = |points: &&[f64]| {
        let mut part = Part::new(points, 1, 2, request);
        if request.curvature.is_some() {
            let of_chunk = |points: &[f64]| -> Vec<f64> {
                let numbers = (0..points.len()).map(|i| i as f64);
                points.iter().map(|_| 1.0).chain(numbers).collect()
            };
            part.weights = points.chunks(2).flat_map(of_chunk).collect();
        }
        part
    };
    Batch { request: request.clone(), parts: parts.iter().map(part).collect() }
}

fn evaluate(target: &dyn Target, batch: Batch) -> (Batch, Spent) {
    let scratch = ScratchPool::new(1);
    let mut evaluator = of_target(target, &scratch, Limits::default());
    let ticket = evaluator.submit(batch);
    let batch = evaluator.collect(ticket).unwrap();
    (batch, evaluator.spent())
}

#[test]
fn batches_come_back_by_ticket_in_any_order_and_are_counted() {
    let (target, scratch) = (target(), ScratchPool::new(1));
    let limits = Limits { spent: Spent { evals: 10, dropped: 1 }, max_evals: 15 };
    let mut evaluator = of_target(&target, &scratch, limits);
    let request = request(false);
    let first = evaluator.submit(batch(&[&[1.0], &[0.0, 2.0]], &request));
    let second = evaluator.submit(batch(&[&[-1.0]], &request));
    assert_eq!(evaluator.spent(), Spent { evals: 14, dropped: 1 });
    assert!(evaluator.affords(1) && !evaluator.affords(2));
    assert_eq!(evaluator.collect(second).unwrap().parts[0].grad, [1.0]);
    let batch = evaluator.collect(first).unwrap();
    assert_eq!((&batch.parts[0].log_p[..], &batch.parts[1].log_p[..]), (&[-0.5][..], &[0.0, -2.0][..]));
    assert!(evaluator.collect(Ticket(0)).is_err());
}

#[test]
fn points_that_fail_are_dropped_and_the_others_repeated() {
    let points: &[f64] = &[1.0, 4.0, -4.0, -1.0, 0.5];
    let (found, spent) = evaluate(&target(), batch(&[points], &request(false)));
    let part = &found.parts[0];
    assert_eq!((part.log_p[0], part.log_p[1], part.log_p[3]), (-0.5, f64::NEG_INFINITY, -0.5));
    // A value without a gradient is of no use.
    assert!(part.log_p[2].is_nan());
    assert_eq!((part.grad[0], part.grad[3]), (-1.0, 1.0));
    // Five points, and one more evaluation of each of the two that shared a chunk with a bad one.
    assert_eq!(spent, Spent { evals: 7, dropped: 2 });
    let once = Request { repeat_without_failed: false, ..request(false) };
    let (again, spent) = evaluate(&target(), batch(&[points], &once));
    assert_eq!(spent, Spent { evals: 5, dropped: 2 });
    assert_eq!(again.parts[0].grad[3], 1.0);
}

#[test]
fn sums_of_curvature_leave_out_what_fails() {
    let (found, spent) = evaluate(&target(), batch(&[&[1.0, 0.0, 2.0, 0.5, 4.0, 4.0]], &request(true)));
    // The second chunk keeps its second point alone, and the third nothing.
    assert_eq!(found.parts[0].curv, [-2.0, -1.0, -1.0, -1.0, 0.0, 0.0]);
    assert!(found.parts[0].log_p[2].is_nan());
    // Six; the second chunk point by point, and the good one of it again.
    assert_eq!(spent, Spent { evals: 6 + 2 + 1, dropped: 3 });
}

#[test]
fn whole_batches_give_the_values_of_chunks() {
    let parts: &[&[f64]] = &[&[1.0, 4.0, 0.3], &[], &[2.0, 0.5, -4.0, -1.0, 0.0]];
    for curvature in [false, true] {
        let request = request(curvature);
        let (chunks, by_chunks) = evaluate(&target(), batch(parts, &request));
        let (whole, at_once) = evaluate(&Parabola { whole: true }, batch(parts, &request));
        for (a, b) in chunks.parts.iter().zip(&whole.parts) {
            let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
            assert_eq!((bits(&a.log_p), &a.curv), (bits(&b.log_p), &b.curv));
        }
        assert_eq!(by_chunks.dropped, at_once.dropped);
        // Without sums nothing is spoilt, so nothing is asked twice.
        assert!(curvature || at_once.evals == 8);
    }
}

#[test]
fn threads_change_nothing() {
    let points: Vec<f64> = (0..501).map(|i| (f64::from(i) * 0.37).sin() * 3.2).collect();
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (found, spent) = pool.install(|| evaluate(&target(), batch(&[&points, &points[..7]], &request(true))));
        (found.parts.iter().flat_map(|part| part.curv.clone()).collect::<Vec<f64>>(), spent)
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn the_first_error_in_the_order_of_the_points_is_reported() {
    let failing = |z: &[f64], _: Option<&mut [f64]>| -> Result<f64, TargetError> {
        if z[0] > 0.0 { Err(format!("no value at {}", z[0]).into()) } else { Ok(0.0) }
    };
    let (target, scratch) = (ClosureTarget::new(1, failing).unwrap(), ScratchPool::new(1));
    let mut evaluator = of_target(&target, &scratch, Limits::default());
    let values = Request::default();
    let ticket = evaluator.submit(batch(&[&[0.0, 0.0, 1.0], &[2.0]], &values));
    assert_eq!(evaluator.collect(ticket).unwrap_err().to_string(), "the target failed: no value at 1");
}

#[test]
fn points_may_be_computed_by_whoever_evaluates_their_chunk() {
    let parts: &[&[f64]] = &[&[1.0, 0.5, -1.0], &[], &[2.0, 0.25, -3.0, 0.0]];
    let request = request(false);
    for whole in [false, true] {
        let (target, scratch) = (Parabola { whole }, ScratchPool::new(1));
        let mut evaluator = of_target(&target, &scratch, Limits::default());
        // Half of each point, plus where its chunk is.
        let prepare = |part: usize, number: usize, points: ChunkPoints<'_>| {
            assert_eq!(points.z.len(), points.grad.len());
            points.z.iter_mut().for_each(|z| *z = 0.5 * *z + (part * 10 + number) as f64 / 100.0);
        };
        let ticket = evaluator.submit_prepared(batch(parts, &request), &prepare);
        let found = evaluator.collect(ticket).unwrap();
        assert_eq!(found.parts[0].z, [0.5, 0.25, -0.49]);
        assert_eq!(found.parts[2].grad, [-1.2, -0.325, 1.5 - 0.21, -0.21]);
        assert_eq!(evaluator.spent(), Spent { evals: 7, dropped: 0 });
    }
}
