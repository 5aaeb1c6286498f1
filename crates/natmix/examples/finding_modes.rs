//! The automatic mixture on a ring, a banana and a blob: four moments of a run as a picture.
//!
//! `cargo run --release --example finding_modes > docs/img/automatic.svg`

use natmix::autodiff::{AutoDiff, Density, Real, log_sum_exp};
use natmix::family::{Gaussian, Mixture};
use natmix::observe::{Iteration, Observer};
use natmix::target::log_p_at;
use natmix::{Config, Error, Fit};
use std::fmt::Write;
use std::ops::ControlFlow;

/// Half of the picture's width and height, in units of the density, and pixels per unit.
const HALF: [f64; 2] = [7.5, 5.5];
const SCALE: f64 = 26.0;
/// Cells per unit of the grid on which contours are traced.
const FINE: f64 = 10.0;
/// Contours, in nats below the top.
const LEVELS: [f64; 3] = [0.7, 2.6, 6.0];

struct Shapes;

impl Density for Shapes {
    fn dim(&self) -> usize {
        2
    }
    fn log_p<R: Real>(&self, z: &[R]) -> R {
        let square = |x: R| x * x;
        let radius = (square(z[0] + 4.0) + square(z[1] - 1.5) + 1e-9).sqrt();
        let ring = square(radius - 2.0) * -12.0;
        let banana = square(z[0] - 2.5) * -0.25 - square(z[1] + 3.8 - square(z[0] - 2.5) * 0.4) * 4.0;
        let blob = (square(z[0] - 4.0) + square(z[1] - 3.0)) * -2.5 + 0.5;
        log_sum_exp(&[ring, banana, blob])
    }
}

/// Keeps the mixture of every iteration.
#[derive(Default)]
struct MixtureHistory(Vec<(u64, Mixture)>);

impl Observer for MixtureHistory {
    fn iteration(&mut self, it: &Iteration<'_>) -> Result<ControlFlow<()>, Error> {
        self.0.push((it.evals, it.mixture.clone()));
        Ok(ControlFlow::Continue(()))
    }
}

fn main() -> Result<(), Error> {
    let target = AutoDiff(Shapes);
    let config = Config { init_sd: vec![4.0], max_evals: Some(30_000), seed: 3, ..Config::default() };
    let mut film = MixtureHistory::default();
    let fitted = Fit::new(&target, config).observe(&mut film).run()?;
    let frames = film.0;
    let last = frames.len() - 1;
    // The first iteration that ends with more components than it began with has split some.
    let split = (1..last).find(|&i| frames[i].1.len() > frames[i - 1].1.len()).unwrap_or(last);
    let moments = [
        (0, "modes found"),
        (split.saturating_sub(1), "modes settled"),
        (split, "components split"),
        (last, "at the end"),
    ];
    let mut svg = String::new();
    let (width, height) = (2.0 * HALF[0] * SCALE, 2.0 * HALF[1] * SCALE);
    let (full_width, full_height) = (2.0 * width + 30.0, 2.0 * (height + 30.0) + 10.0);
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full_width} {full_height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>A mixture that finds modes: four moments of one run</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<defs><g id=\"density\">{}</g>\n\
         <clipPath id=\"frame\"><rect width=\"{width}\" height=\"{height}\"/></clipPath></defs>",
        contours(&target)?
    );
    for (panel, (at, name)) in moments.into_iter().enumerate() {
        let (evals, mixture) = (&frames[at].0, if at == last { &fitted.mixture } else { &frames[at].1 });
        let (x, y) = (10.0 + (panel % 2) as f64 * (width + 10.0), 26.0 + (panel / 2) as f64 * (height + 30.0));
        let number = mixture.len();
        let _ = writeln!(
            svg,
            "<g transform=\"translate({x} {y})\"><text y=\"-8\">{name}, after {evals} evaluations: {number} \
             components</text>\n<rect width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#bbb\"/>\n\
             <g clip-path=\"url(#frame)\"><use href=\"#density\"/>"
        );
        for (weight, component) in mixture.weights().iter().zip(mixture.components()) {
            let _ = writeln!(svg, "{}", ellipse(*weight, component));
        }
        let _ = writeln!(svg, "</g></g>");
    }
    let _ = writeln!(svg, "</svg>");
    print!("{svg}");
    Ok(())
}

fn pixel(z: [f64; 2]) -> [f64; 2] {
    [(z[0] + HALF[0]) * SCALE, (HALF[1] - z[1]) * SCALE]
}

/// The points at one standard deviation, the stronger the more weight.
fn ellipse(weight: f64, component: &Gaussian) -> String {
    let cov = component.precision().covariance_full();
    let (middle, half) = (0.5 * (cov[0] + cov[3]), 0.5 * (cov[0] - cov[3]));
    let reach = half.hypot(cov[1]);
    let angle = -0.5 * cov[1].atan2(half).to_degrees();
    let (long, short) = ((middle + reach).sqrt() * SCALE, (middle - reach).max(0.0).sqrt() * SCALE);
    let [x, y] = pixel([component.mean()[0], component.mean()[1]]);
    let strength = (0.15 + 2.0 * weight).min(0.9);
    format!(
        "<ellipse rx=\"{long:.1}\" ry=\"{short:.1}\" transform=\"translate({x:.1} {y:.1}) rotate({angle:.1})\" \
         fill=\"#d1495b\" fill-opacity=\"{:.2}\" stroke=\"#a02c40\" stroke-opacity=\"{strength:.2}\" stroke-width=\"1.5\"/>",
        0.5 * strength
    )
}

/// Contours of the density: within each cell of a grid, where a level crosses its edges.
fn contours(target: &AutoDiff<Shapes>) -> Result<String, Error> {
    let cells = HALF.map(|half| (2.0 * half * FINE) as usize);
    let at = |i: usize, j: usize| [i as f64 / FINE - HALF[0], j as f64 / FINE - HALF[1]];
    let mut values = vec![vec![0.0; cells[1] + 1]; cells[0] + 1];
    for (i, column) in values.iter_mut().enumerate() {
        for (j, value) in column.iter_mut().enumerate() {
            *value = log_p_at(target, &at(i, j))?;
        }
    }
    let top = values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut svg = String::new();
    for below in LEVELS {
        let level = top - below;
        let mut path = String::new();
        for i in 0..cells[0] {
            for j in 0..cells[1] {
                let corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)];
                let crossings: Vec<[f64; 2]> = (0..4)
                    .filter_map(|edge| {
                        let ((i, j), (k, l)) = (corners[edge], corners[(edge + 1) % 4]);
                        let (a, b) = (values[i][j] - level, values[k][l] - level);
                        let share = a / (a - b);
                        let (from, to) = (at(i, j), at(k, l));
                        let between = |axis: usize| from[axis] + share * (to[axis] - from[axis]);
                        (a * b < 0.0).then(|| pixel([between(0), between(1)]))
                    })
                    .collect();
                for pair in crossings.chunks_exact(2) {
                    let _ = write!(path, "M{:.1} {:.1}L{:.1} {:.1}", pair[0][0], pair[0][1], pair[1][0], pair[1][1]);
                }
            }
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"#3a6ea5\" stroke-opacity=\"{:.2}\"/>",
            1.0 / (1.0 + 0.3 * below)
        );
    }
    Ok(svg)
}
