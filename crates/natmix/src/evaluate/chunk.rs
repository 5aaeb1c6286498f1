//! One chunk of points: the call of the target, and what follows when points fail.

use super::{ChunkPoints, ChunkReport, Part, Request};
use crate::target::{CurvatureSums, EvalOut, Points, Target, TargetError};
use crate::workspace::Scratch;

/// The points of one or more whole chunks, and where their values go.
pub(super) struct Chunk<'a> {
    pub z: &'a mut [f64],
    pub weights: &'a [f64],
    pub log_p: &'a mut [f64],
    pub grad: &'a mut [f64],
    pub curv: &'a mut [f64],
    reports: &'a mut [ChunkReport],
    size: usize,
}

impl<'a> Chunk<'a> {
    /// All chunks of a part.
    pub fn all(part: &'a mut Part) -> Self {
        Self {
            z: &mut part.z,
            weights: &part.weights,
            log_p: &mut part.log_p,
            grad: &mut part.grad,
            curv: &mut part.curv,
            reports: &mut part.reports,
            size: part.chunk,
        }
    }

    /// Works on each chunk by itself, in parallel; the chunks are numbered from `first` on.
    pub fn for_each(self, first: usize, work: &(impl Fn(usize, Chunk<'_>) + Sync)) {
        match self.reports.len() {
            0 => {}
            1 => work(first, self),
            several => {
                let (these, others) = self.split(several / 2);
                rayon::join(|| these.for_each(first, work), || others.for_each(first + several / 2, work));
            }
        }
    }

    /// What may be changed before the chunk is evaluated.
    pub fn points(&mut self) -> ChunkPoints<'_> {
        ChunkPoints { z: self.z, log_p: self.log_p, grad: self.grad }
    }

    /// Works on each chunk by itself, in order.
    pub fn one_by_one(mut self, work: &mut impl FnMut(Chunk<'_>)) {
        while self.reports.len() > 1 {
            let (first, others) = self.split(1);
            work(first);
            self = others;
        }
        if !self.reports.is_empty() {
            work(self);
        }
    }

    /// The first `chunks` chunks, and the others.
    fn split(self, chunks: usize) -> (Self, Self) {
        let points = chunks * self.size;
        let of_points = |len: usize| len / self.log_p.len() * points;
        let of_chunks = self.curv.len() / self.reports.len() * chunks;
        let (z, weights, grad) = (of_points(self.z.len()), of_points(self.weights.len()), of_points(self.grad.len()));
        let (z, weights) = (self.z.split_at_mut(z), self.weights.split_at(weights));
        let (log_p, grad) = (self.log_p.split_at_mut(points), self.grad.split_at_mut(grad));
        let (curv, reports) = (self.curv.split_at_mut(of_chunks), self.reports.split_at_mut(chunks));
        let size = self.size;
        let first =
            Self { z: z.0, weights: weights.0, log_p: log_p.0, grad: grad.0, curv: curv.0, reports: reports.0, size };
        let second =
            Self { z: z.1, weights: weights.1, log_p: log_p.1, grad: grad.1, curv: curv.1, reports: reports.1, size };
        (first, second)
    }

    fn dim(&self) -> usize {
        self.z.len() / self.log_p.len()
    }
}

/// A target, and what is asked of it.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub target: &'a dyn Target,
    pub request: &'a Request,
    /// Whether a chunk in which points fail is evaluated again without them.
    pub repeat: bool,
}

impl Question<'_> {
    /// Evaluates one chunk and leaves a report.
    pub fn evaluate(self, mut chunk: Chunk<'_>, scratch: &mut Scratch) {
        *chunk.report() = ChunkReport::default();
        let result = self.call(&mut chunk, scratch).and_then(|()| self.check(&mut chunk, scratch));
        chunk.report().error = result.err();
    }

    /// Reports on a chunk that was evaluated along with others. Where those may have spoilt it, it is evaluated by itself.
    pub fn review(self, mut chunk: Chunk<'_>, scratch: &mut Scratch) {
        *chunk.report() = ChunkReport { evals: chunk.log_p.len() as u64, ..ChunkReport::default() };
        let again = if self.repeat && !chunk.is_finite() { self.call(&mut chunk, scratch) } else { Ok(()) };
        chunk.report().error = again.and_then(|()| self.check(&mut chunk, scratch)).err();
    }

    /// Calls the target; no other code in a run does.
    pub fn ask(self, points: &[f64], dim: usize, answer: Answer<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let Answer { weights, log_p, grad, curv } = answer;
        let out = EvalOut {
            log_p,
            grad: self.request.gradient.then_some(grad),
            curv: self.request.curvature.map(|(kind, shape)| CurvatureSums { kind, shape, weights, sums: curv }),
        };
        self.target.eval(self.request.rows(), Points::new(points, dim), out, scratch)
    }

    fn call(self, chunk: &mut Chunk<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let dim = chunk.dim();
        chunk.report().evals += chunk.log_p.len() as u64;
        let answer = Answer { weights: chunk.weights, log_p: chunk.log_p, grad: chunk.grad, curv: chunk.curv };
        self.ask(chunk.z, dim, answer, scratch)
    }

    /// Marks points that failed; where that is asked for, evaluates the others again.
    fn check(self, chunk: &mut Chunk<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        if chunk.is_finite() {
            return Ok(());
        }
        let n = chunk.log_p.len();
        // Rare, so this path may allocate.
        let mut good: Vec<usize> = (0..n).filter(|&i| chunk.is_finite_at(i)).collect();
        if good.len() == n {
            good = self.with_finite_curvature(chunk, scratch)?;
            if good.len() == n {
                // Finite one by one, but not their sum: nothing here can be used.
                good.clear();
            }
        }
        chunk.report().dropped += (n - good.len()) as u64;
        let mut kept = good.iter().copied().peekable();
        for (i, log_p) in chunk.log_p.iter_mut().enumerate() {
            // The target's own value stays where it is informative: zero density is minus infinity.
            if kept.next_if_eq(&i).is_none() && log_p.is_finite() {
                *log_p = f64::NAN;
            }
        }
        if self.repeat { self.evaluate_subset(&good, chunk, scratch) } else { Ok(()) }
    }

    /// Evaluates the good points of a chunk again, as a separate chunk.
    fn evaluate_subset(self, good: &[usize], chunk: &mut Chunk<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        let (n, dim) = (chunk.log_p.len(), chunk.dim());
        chunk.curv.fill(0.0);
        if good.is_empty() {
            return Ok(());
        }
        let mut z: Vec<f64> = good.iter().flat_map(|&i| &chunk.z[i * dim..(i + 1) * dim]).copied().collect();
        let weights: Vec<f64> =
            chunk.weights.chunks_exact(n).flat_map(|weights| good.iter().map(|&i| weights[i])).collect();
        let (mut log_p, mut grad) = (vec![0.0; good.len()], vec![0.0; chunk.grad.len() / n * good.len()]);
        let mut report = ChunkReport::default();
        let mut smaller = Chunk {
            z: &mut z,
            weights: &weights,
            log_p: &mut log_p,
            grad: &mut grad,
            curv: &mut *chunk.curv,
            reports: std::slice::from_mut(&mut report),
            size: good.len(),
        };
        self.call(&mut smaller, scratch)?;
        // Fewer points each time, so this ends.
        self.check(&mut smaller, scratch)?;
        for (at, &i) in good.iter().enumerate() {
            chunk.log_p[i] = log_p[at];
            if !grad.is_empty() {
                chunk.grad[i * dim..(i + 1) * dim].copy_from_slice(&grad[at * dim..(at + 1) * dim]);
            }
        }
        chunk.report().evals += report.evals;
        chunk.report().dropped += report.dropped;
        Ok(())
    }

    /// The points whose curvature is finite, evaluated one by one.
    fn with_finite_curvature(self, chunk: &mut Chunk<'_>, scratch: &mut Scratch) -> Result<Vec<usize>, TargetError> {
        let (n, dim) = (chunk.log_p.len(), chunk.dim());
        let mut curv = vec![0.0; chunk.curv.len() / self.request.sums_per_chunk.max(1)];
        let (mut log_p, mut grad) = ([0.0], vec![0.0; if self.request.gradient { dim } else { 0 }]);
        let mut good = Vec::with_capacity(n);
        for i in 0..n {
            let z = &chunk.z[i * dim..(i + 1) * dim];
            let answer = Answer { weights: &[1.0], log_p: &mut log_p, grad: &mut grad, curv: &mut curv };
            self.ask(z, dim, answer, scratch)?;
            chunk.report().evals += 1;
            if curv.iter().all(|x| x.is_finite()) {
                good.push(i);
            }
        }
        Ok(good)
    }
}

impl Chunk<'_> {
    fn is_finite_at(&self, i: usize) -> bool {
        let each = self.grad.len() / self.log_p.len();
        self.log_p[i].is_finite() && self.grad[i * each..(i + 1) * each].iter().all(|g| g.is_finite())
    }

    fn is_finite(&self) -> bool {
        are_finite(self.log_p) && are_finite(self.grad) && are_finite(self.curv)
    }

    /// The report of a single chunk.
    fn report(&mut self) -> &mut ChunkReport {
        &mut self.reports[0]
    }
}

/// Whether all numbers are finite. Without a branch for each, since every value of every chunk comes by here: zero times a number that
/// is not finite is not a number, and stays so in any sum.
fn are_finite(values: &[f64]) -> bool {
    let (lanes, rest) = values.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for lane in lanes {
        sums.iter_mut().zip(lane).for_each(|(sum, x)| *sum += 0.0 * x);
    }
    sums.iter().chain(rest).all(|x| x.is_finite())
}

/// Where the target leaves its results.
pub(super) struct Answer<'a> {
    pub weights: &'a [f64],
    pub log_p: &'a mut [f64],
    pub grad: &'a mut [f64],
    pub curv: &'a mut [f64],
}
