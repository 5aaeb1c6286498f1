//! The ELBO against evaluations, with a band of two standard errors and the number of components below.
//!
//! A climb from -100,000 must not flatten the end, where tenths matter. So after a long climb the axis shows the
//! distance to the final ELBO: linear within the final noise, logarithmic beyond.

use natmix::observe::TraceRow;

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel};
use crate::{ReportedEstimate, number};

/// A climb of more than this many times the final noise needs the logarithmic scale.
const LONG_CLIMB: f64 = 25.0;
/// Differences below a hundredth of a nat do not matter.
const LEAST_NOISE: f64 = 0.01;
/// Beyond this, differences may overflow; NaN is not below it either.
const HUGE: f64 = 1e200;
const STRIP: f64 = 34.0;

/// One segment of the trace, about a pixel wide.
struct ElboStep {
    evals: f64,
    middle: f64,
    low: f64,
    high: f64,
    components: f64,
}

/// The picture; `None` if no ELBO of the trace is finite.
pub fn draw(trace: &[TraceRow], last: ReportedEstimate, width: f64) -> Option<Scene> {
    let rows: Vec<&TraceRow> = trace.iter().filter(|row| row.elbo.abs() < HUGE).collect();
    let end = &rows[rows.len() - rows.len().div_ceil(5)..];
    let level = if last.mean.abs() < HUGE { last.mean } else { median(end.iter().map(|row| row.elbo))? };
    let noise = (2.0 * median(end.iter().map(|row| tidy(row.se)))?).clamp(LEAST_NOISE, 1e100);
    let steps = shorten(&rows, level, (width / 1.5) as usize);
    let climb = -steps.iter().map(|s| s.middle).fold(0.0, f64::min);
    let long = climb > LONG_CLIMB * noise;
    let tallest = steps[steps.len() - steps.len().div_ceil(5)..].iter().map(|s| s.high).fold(0.0, f64::max);
    let highest = steps.iter().map(|s| s.middle).fold(tallest, f64::max);

    let strip = steps.iter().any(|s| s.components != steps[0].components);
    let height = if width > 500.0 { 280.0 } else { 240.0 } + if strip { STRIP + 12.0 } else { 0.0 };
    let mut scene = Scene::new(width, height, "ELBO against evaluations of the target");
    let (top, foot) = (26.0, 40.0 + if strip { STRIP + 12.0 } else { 0.0 });
    let y = if long {
        Scale { lo: -1.6 * climb, hi: highest + noise, knee: Some(noise) }
    } else {
        Scale::linear(level - climb.max(noise), level + highest.max(noise)).padded(0.08)
    };
    let gap = 24.0 / (height - top - foot);
    let y_ticks = if long { axis::power_ticks(&y, gap) } else { axis::ticks(&y, 5) };
    let shift = if long { 0.0 } else { level };
    let x = Scale::linear(0.0, steps.iter().map(|s| s.evals).fold(0.0, f64::max));
    let left = axis::label_room(&y_ticks);
    let panel = Panel { left, right: width - 14.0, top, bottom: height - foot, x, y };

    panel.y_axis(&mut scene, &y_ticks);
    let heading = if long { "ELBO − final ELBO (nats)" } else { "ELBO (nats)" };
    scene.text(TextLabel::new((0.0, 12.0), heading, TICK, Ink::MUTED));
    let value = format!("final: {}", number::rounded(level, if last.se > 0.0 { last.se } else { noise }));
    scene.text(TextLabel::new((panel.right, 12.0), value, TICK, Ink::TEXT).anchored(Anchor::End));
    let band = steps.iter().map(|s| (s.evals, s.high)).chain(steps.iter().rev().map(|s| (s.evals, s.low)));
    scene.area(band.map(|(e, v)| panel.at((e, v + shift))).collect(), Ink::series(0), 0.22);
    let zero = panel.py(shift);
    scene.dashed(vec![(panel.left, zero), (panel.right, zero)], Ink::AXIS, 1.0);
    let line: Vec<_> = steps.iter().map(|s| panel.at((s.evals, s.middle + shift))).collect();
    if let [only] = line[..] {
        scene.dots(vec![only], 3.0, Ink::series(0), 1.0);
    }
    scene.line(line, Ink::series(0), 1.8);

    let make = |most| axis::count_ticks(&x, most);
    let x_ticks = axis::side_by_side(make, panel.right - panel.left);
    let lowest = if strip { draw_strip(&mut scene, &panel, &steps) } else { panel };
    lowest.x_axis(&mut scene, &x_ticks, false);
    let middle = 0.5 * (panel.left + panel.right);
    scene.text(TextLabel::new((middle, height - 5.0), "evaluations", TICK, Ink::MUTED).anchored(Anchor::Middle));
    Some(scene)
}

/// The number of components as a step function; returns the panel that the x axis belongs to.
fn draw_strip(scene: &mut Scene, panel: &Panel, steps: &[ElboStep]) -> Panel {
    let most = steps.iter().map(|s| s.components).fold(1.0, f64::max);
    let top = panel.bottom + 12.0;
    let strip = Panel { top, bottom: top + STRIP, y: Scale::linear(0.0, 1.1 * most), ..*panel };
    let mut stairs = Vec::new();
    for pair in steps.windows(2) {
        stairs.push(strip.at((pair[0].evals, pair[0].components)));
        stairs.push(strip.at((pair[1].evals, pair[0].components)));
    }
    stairs.extend(steps.last().map(|s| strip.at((s.evals, s.components))));
    let mut filled = stairs.clone();
    filled.extend([(stairs[stairs.len() - 1].0, strip.bottom), (stairs[0].0, strip.bottom)]);
    scene.area(filled, Ink::MUTED, 0.15);
    scene.line(stairs, Ink::MUTED, 1.2);
    let y = strip.py(most);
    let most_label = TextLabel::new((strip.left - 7.0, y + 0.36 * TICK), number::fixed(most, 0), TICK, Ink::MUTED);
    scene.text(most_label.anchored(Anchor::End));
    let name = TextLabel::new((strip.right - 2.0, strip.bottom - 5.0), "components", TICK, Ink::MUTED);
    scene.text(name.anchored(Anchor::End));
    strip
}

/// At most `most` segments: the median of each, and the band that covers all of it. Values are distances to `level`.
fn shorten(rows: &[&TraceRow], level: f64, most: usize) -> Vec<ElboStep> {
    let stretch = |rows: &[&TraceRow]| {
        let last = rows[rows.len() - 1];
        let side = |sign: f64| rows.iter().map(move |row| row.elbo - level + sign * 2.0 * tidy(row.se));
        ElboStep {
            evals: last.evals as f64,
            middle: median(rows.iter().map(|row| row.elbo - level)).unwrap_or(0.0),
            low: side(-1.0).fold(f64::INFINITY, f64::min),
            high: side(1.0).fold(f64::NEG_INFINITY, f64::max),
            components: last.components as f64,
        }
    };
    rows.chunks(rows.len().div_ceil(most.max(2)).max(1)).map(stretch).collect()
}

/// An unknown standard error adds nothing to the band.
fn tidy(se: f64) -> f64 {
    if se.is_finite() { se.clamp(0.0, HUGE) } else { 0.0 }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
