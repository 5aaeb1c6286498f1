//! Whether a gradient is that of its density: differences of log p at a few draws, before a fit.
//!
//! Along a line `z + t u` the change of log p between `t = -h` and `t = h` is the integral of the slope `u . grad`. Simpson's
//! rule for it is exact where log p is a polynomial of degree four, so steps need not be small, and rounding errors matter
//! little. How far the outer gradients disagree with the middle one says what kinks, high derivatives and noise in the gradient
//! can explain. A wrong gradient shows as a discrepancy that does not depend on the step, beyond what these explain and at
//! two draws; rounding errors or noise in log p grow as the step shrinks, and a kink is explained. Where neither agreement nor a
//! steady discrepancy is seen, the check says so and the fit goes on.
//!
//! The check costs [`EVALUATIONS`] evaluations; only a suspicion costs more.

mod fault;
mod line;
#[cfg(test)]
mod tests;

pub use fault::GradientFault;
pub(crate) use fault::{RATIO_DIGITS, short};

use crate::error::Error;
use crate::evaluate::{Batch, Evaluator, Part, Request};
use crate::family::Mixture;
use crate::noise::{Noise, Purpose};
use fault::{Slopes, name_fault};
use line::{Finding, Line, Sample};

/// Evaluations of a check that finds nothing wrong.
pub const EVALUATIONS: u64 = (CANDIDATES + LINES * 2 * FIRST_STEPS.len()) as u64;
/// Draws among which the lines' middle points are chosen, and how many are.
const CANDIDATES: usize = 4;
const LINES: usize = 2;
/// Steps of every line, and those added where a gradient looks wrong.
const FIRST_STEPS: [f64; 2] = [0.25, 0.03125];
const MORE_STEPS: [f64; 4] = [0.5, 0.125, 0.0078125, 0.001953125];
/// Points evaluated at once while the worst coordinate is sought.
const AT_ONCE: usize = 64;
/// Points per chunk.
const CHUNK: usize = 8;

/// Checks the gradient of a target near the start of a fit. Fails if it is wrong; returns a remark if that cannot be told.
/// `names` are those of the coordinates.
pub(crate) fn check_gradient(
    evaluator: &mut dyn Evaluator,
    start: &Mixture,
    names: &dyn Fn() -> Vec<String>,
    seed: u64,
) -> Result<Option<String>, Error> {
    let mut check = Check { evaluator, start, seed, sd: typical_sd(start), drawn: 0, lines: 0 };
    let mut lines = check.draw_lines()?;
    check.measure(&mut lines.iter_mut().collect::<Vec<_>>(), &FIRST_STEPS)?;
    if lines.iter().any(Line::is_suspicious) {
        let mut others = check.draw_lines()?;
        check.measure(&mut others.iter_mut().collect::<Vec<_>>(), &FIRST_STEPS)?;
        lines.append(&mut others);
        let mut suspicious: Vec<&mut Line> = lines.iter_mut().filter(|line| line.is_suspicious()).collect();
        check.measure(&mut suspicious, &MORE_STEPS)?;
    }
    let findings: Vec<Finding> = lines.iter().map(Line::finding).collect();
    let count = |what: Finding| findings.iter().filter(|finding| **finding == what).count();
    if count(Finding::Wrong) >= LINES {
        let wrong: Vec<&Line> = lines
            .iter()
            .zip(&findings)
            .filter(|(_, finding)| **finding == Finding::Wrong)
            .map(|(line, _)| line)
            .collect();
        return Err(check.wrong_gradient(&wrong, names)?);
    }
    let measured = lines.len() - count(Finding::Nothing);
    Ok(if count(Finding::Wrong) > 0 {
        Some(format!(
            "the gradient disagrees with differences of log p at one of {measured} points where it was checked"
        ))
    } else if measured > 0 && count(Finding::Right) == 0 {
        Some(
            "the gradient could not be checked: differences of log p do not settle as their step shrinks \
             (kinks, or noise in log p)"
                .into(),
        )
    } else {
        None
    })
}

/// The standard deviation of each coordinate within components, on average.
pub(crate) fn typical_sd(start: &Mixture) -> Vec<f64> {
    let mut typical = vec![0.0; start.dim()];
    for (weight, component) in start.weights().iter().zip(start.components()) {
        typical.iter_mut().zip(component.sd()).for_each(|(typical, sd)| *typical += weight * sd);
    }
    typical
}

struct Check<'a> {
    evaluator: &'a mut dyn Evaluator,
    start: &'a Mixture,
    seed: u64,
    sd: Vec<f64>,
    /// Batches of candidates drawn, and lines made.
    drawn: u64,
    lines: u64,
}

impl Check<'_> {
    fn evaluate(&mut self, points: &[f64]) -> Result<Vec<Sample>, Error> {
        let d = self.sd.len();
        let request = Request { gradient: true, ..Request::default() };
        let part = Part::new(points, d, CHUNK, &request);
        let ticket = self.evaluator.submit(Batch { request, parts: vec![part] });
        let Part { z, log_p, grad, .. } = self.evaluator.collect(ticket)?.parts.pop().unwrap_or_default();
        let samples = z.chunks_exact(d).zip(log_p).zip(grad.chunks_exact(d));
        Ok(samples.map(|((z, log_p), grad)| Sample { z: z.to_vec(), log_p, grad: grad.to_vec() }).collect())
    }

    /// Lines through the likeliest of a few draws at which everything is finite: rounding errors are smallest there.
    fn draw_lines(&mut self) -> Result<Vec<Line>, Error> {
        let mut points = vec![0.0; CANDIDATES * self.sd.len()];
        self.start.draw(&mut points, self.seed, Purpose::GradientCheck, self.drawn);
        self.drawn += 1;
        let mut middles = self.evaluate(&points)?;
        middles.retain(|middle| middle.log_p.is_finite());
        middles.sort_by(|a, b| b.log_p.total_cmp(&a.log_p));
        middles.truncate(LINES);
        Ok(middles.into_iter().map(|middle| self.line(middle)).collect())
    }

    /// A line in a random direction along which every coordinate changes log p by about as much, so that an error in any of
    /// them shows; no coordinate moves further than the start is wide.
    fn line(&mut self, middle: Sample) -> Line {
        let mut noise = Noise::new(self.seed, Purpose::GradientCheck, self.lines, 0, 1);
        self.lines += 1;
        let direction = middle.grad.iter().zip(&self.sd).map(|(g, sd)| {
            // Lengths differ, so that swapped coordinates do not cancel.
            let length = (0.5 + noise.uniform()) * sd.min(1.0 / g.abs());
            if noise.uniform() < 0.5 { -length } else { length }
        });
        Line { direction: direction.collect(), middle, steps: Vec::new() }
    }

    fn measure(&mut self, lines: &mut [&mut Line], steps: &[f64]) -> Result<(), Error> {
        let mut points = Vec::new();
        for line in &*lines {
            for &h in steps {
                points.extend(line.point(-h));
                points.extend(line.point(h));
            }
        }
        if points.is_empty() {
            return Ok(());
        }
        let samples = self.evaluate(&points)?;
        for (line, samples) in lines.iter_mut().zip(samples.chunks_exact(2 * steps.len())) {
            for (&h, ends) in steps.iter().zip(samples.chunks_exact(2)) {
                line.add_step(h, &ends[0], &ends[1]);
            }
        }
        Ok(())
    }

    /// Finds the worst coordinate, with one evaluation each, and what is wrong.
    fn wrong_gradient(&mut self, wrong: &[&Line], names: &dyn Fn() -> Vec<String>) -> Result<Error, Error> {
        let Some(line) = wrong.iter().max_by(|a, b| a.discrepancy().total_cmp(&b.discrepancy())) else {
            return Err(Error::InvalidInput("no line of the gradient check is wrong".into()));
        };
        let (h, d) = (line.best_step(), self.sd.len());
        let mut slopes = Vec::with_capacity(d);
        for first in (0..d).step_by(AT_ONCE) {
            let coordinates = first..d.min(first + AT_ONCE);
            let mut points = line.middle.z.repeat(coordinates.len());
            for (z, i) in points.chunks_exact_mut(d).zip(coordinates.clone()) {
                z[i] += h * line.direction[i];
            }
            let samples = self.evaluate(&points)?;
            slopes.extend(samples.iter().zip(coordinates).map(|(sample, i)| Slopes::between(&line.middle, sample, i)));
        }
        let others: Vec<&Line> = wrong.iter().copied().filter(|other| !std::ptr::eq(*other, *line)).collect();
        let size = |i: &usize| (slopes[*i].gap() * line.direction[*i]).abs();
        let coordinate = (0..d).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(0);
        let (names, worst) = (names(), &slopes[coordinate]);
        Ok(Error::WrongGradient {
            coordinate: names.get(coordinate).cloned().unwrap_or_else(|| format!("z{coordinate}")),
            gradient: worst.gradient,
            difference: worst.difference,
            fault: name_fault(&slopes, &line.direction, &others, &names),
        })
    }
}
