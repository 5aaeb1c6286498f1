//! The distribution of the outcome: bars of the data, with what data sets drawn from the fitted model have in their place.

use crate::OutcomeCheck;
use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};

const HEIGHT: f64 = 260.0;
/// Pixels that bars are apart.
const GAP: f64 = 1.5;

/// The picture; none where its numbers are not finite or do not belong together.
pub fn draw(check: &OutcomeCheck, width: f64) -> Option<Scene> {
    let OutcomeCheck { outcome, edges, names, observed, replicated } = check;
    let (first, last) = (*edges.first()?, *edges.last()?);
    let numbers = edges.iter().chain(observed).chain(replicated.iter().flatten());
    let fits = edges.len() == observed.len() + 1 && replicated.len() == observed.len();
    if observed.is_empty() || !fits || !numbers.clone().all(|x| x.is_finite()) || last <= first {
        return None;
    }
    let mut scene = Scene::new(width, HEIGHT, format!("Distribution of {}", text::fit(outcome, TICK, false, 300.0)));
    let tallest = observed.iter().copied().chain(replicated.iter().map(|share| share[2])).fold(0.0, f64::max);
    let y = Scale::linear(0.0, 1.04 * tallest);
    let ticks = axis::ticks(&y, 5);
    let left = axis::label_room(&ticks) + 2.0;
    let panel = Panel { left, right: width - 6.0, top: 40.0, bottom: HEIGHT - 42.0, x: Scale::linear(first, last), y };
    panel.y_axis(&mut scene, &ticks);
    legend(&mut scene);
    for ((edges, share), [low, middle, high]) in edges.windows(2).zip(observed).zip(replicated) {
        let (from, to) = (panel.px(edges[0]), panel.px(edges[1]));
        scene.rect((from + 0.5 * GAP, panel.py(*share)), (to - 0.5 * GAP, panel.bottom), Ink::series(0), 0.45);
        let at = 0.5 * (from + to);
        scene.line(vec![(at, panel.py(*low)), (at, panel.py(*high))], Ink::series(1), 1.8);
        scene.dots(vec![(at, panel.py(*middle))], 2.6, Ink::series(1), 1.0);
    }
    if let Some(names) = names {
        let each = (panel.right - left) / observed.len() as f64;
        for (name, edges) in names.iter().zip(edges.windows(2)) {
            let label = text::fit(name, TICK, false, each - 4.0);
            let at = (panel.px(0.5 * (edges[0] + edges[1])), panel.bottom + 16.0);
            scene.text(TextLabel::new(at, label, TICK, Ink::MUTED).anchored(Anchor::Middle));
        }
        scene.line(vec![(left, panel.bottom), (panel.right, panel.bottom)], Ink::AXIS, 1.0);
    } else {
        let make = |most| axis::ticks(&panel.x, most);
        panel.x_axis(&mut scene, &axis::side_by_side(make, panel.right - left), false);
    }
    let label = text::fit(outcome, TICK, true, panel.right - left);
    let middle = 0.5 * (left + panel.right);
    scene.text(TextLabel::new((middle, HEIGHT - 6.0), label, TICK, Ink::TEXT).bold().anchored(Anchor::Middle));
    Some(scene)
}

/// What bars and dots are, above the axis of shares.
fn legend(scene: &mut Scene) {
    scene.text(TextLabel::new((0.0, 30.0), "share of rows", TICK, Ink::MUTED));
    scene.rect((0.0, 4.0), (10.0, 14.0), Ink::series(0), 0.45);
    scene.text(TextLabel::new((15.0, 13.0), "data", TICK, Ink::TEXT));
    let at = 15.0 + text::width("data", TICK, false) + 16.0;
    scene.line(vec![(at, 2.0), (at, 16.0)], Ink::series(1), 1.8);
    scene.dots(vec![(at, 9.0)], 2.6, Ink::series(1), 1.0);
    scene.text(TextLabel::new((at + 7.0, 13.0), "drawn from the fitted model", TICK, Ink::TEXT));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_classes_are_drawn_and_damaged_ones_are_not() {
        let mut check = OutcomeCheck {
            outcome: "claims".into(),
            edges: vec![-0.5, 0.5, 1.5],
            names: None,
            observed: vec![0.7, 0.3],
            replicated: vec![[0.6, 0.7, 0.8], [0.2, 0.3, 0.4]],
        };
        assert!(draw(&check, 350.0).is_some());
        check.names = Some(vec!["no".into(), "yes".into()]);
        assert!(draw(&check, 620.0).is_some());
        check.replicated[1][2] = f64::NAN;
        assert!(draw(&check, 620.0).is_none());
        check.replicated.pop();
        assert!(draw(&check, 620.0).is_none());
        (check.observed, check.replicated, check.edges) = (vec![], vec![], vec![0.0]);
        assert!(draw(&check, 620.0).is_none());
    }
}
