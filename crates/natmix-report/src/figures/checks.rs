//! Posterior predictive checks: bars of a statistic in replicated data, and a line at its value in the data.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{ModelCheck, number};

const HEIGHT: f64 = 150.0;
/// Pixels that bars are apart.
const GAP: f64 = 1.0;

/// The picture of one statistic; none where its values are not finite.
pub fn draw(check: &ModelCheck, width: f64) -> Option<Scene> {
    let ModelCheck { observed, range: (low, high), bars, .. } = check;
    if ![*observed, *low, *high].iter().all(|x| x.is_finite()) || bars.is_empty() {
        return None;
    }
    let name = title(&check.statistic);
    let mut scene = Scene::new(width, HEIGHT, format!("{name}: replicated and observed"));
    let x = Scale::linear(low.min(*observed), high.max(*observed)).padded(0.04);
    let tallest = bars.iter().copied().fold(0.0, f64::max);
    let y = Scale::linear(0.0, tallest);
    let panel = Panel { left: 4.0, right: width - 4.0, top: 40.0, bottom: HEIGHT - 22.0, x, y };
    scene.text(TextLabel::new((4.0, 15.0), name, 13.0, Ink::TEXT).bold());
    let p = TextLabel::new((width - 4.0, 15.0), format!("p = {}", number::fixed(check.p, 3)), TICK, Ink::MUTED);
    scene.text(p.anchored(Anchor::End));
    // Values that are all equal make one bar of some width.
    let part = if high > low { (high - low) / bars.len() as f64 } else { 0.0 };
    for (i, share) in bars.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        let left = panel.px(low + i as f64 * part);
        let right = if part > 0.0 { (panel.px(low + (i + 1) as f64 * part) - GAP).max(left + 1.0) } else { left + 4.0 };
        scene.rect((left, panel.py(*share)), (right, panel.bottom), Ink::series(0), 0.45);
    }
    let make = |most| axis::ticks(&x, most);
    panel.x_axis(&mut scene, &axis::side_by_side(make, panel.right - panel.left), false);
    let at = panel.px(*observed);
    scene.line(vec![(at, panel.top - 6.0), (at, panel.bottom)], Ink::series(1), 2.2);
    let label = format!("data {}", number::significant(*observed, 3));
    let half = 0.5 * text::width(&label, TICK, false);
    let middle = at.clamp(half + 2.0, width - half - 2.0);
    scene.text(TextLabel::new((middle, panel.top - 10.0), label, TICK, Ink::TEXT).anchored(Anchor::Middle));
    Some(scene)
}

/// The name of a statistic for readers.
fn title(statistic: &str) -> String {
    match statistic {
        "mean" => "Mean",
        "sd" => "Standard deviation",
        "zeros" => "Share of zeros",
        "smallest" => "Smallest outcome",
        "largest" => "Largest outcome",
        "largest residual" => "Largest residual / noise",
        "dispersion" => "Dispersion",
        "ones" => "Share of outcome 1",
        "likeliest" => "Share in the likeliest class",
        "calibration" => "Calibration of ten groups",
        other => other,
    }
    .into()
}
