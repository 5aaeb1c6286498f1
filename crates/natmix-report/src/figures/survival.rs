//! Survival: the Kaplan-Meier estimate of the data, beside that of data sets drawn from the fitted model.

use crate::SurvivalCheck;
use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::legend::{Legend, Swatch};
use crate::figure::{Anchor, Ink, Point, Scene, TextLabel, text};

const HEIGHT: f64 = 280.0;

/// The picture; none where its numbers are not finite or do not belong together.
pub fn draw(check: &SurvivalCheck, width: f64) -> Option<Scene> {
    let SurvivalCheck { outcome, times, observed, replicated, .. } = check;
    let numbers = observed.iter().chain(replicated).flatten().chain(times);
    let sized = observed.len() == times.len() && replicated.len() == times.len();
    if !sized || times.len() < 2 || numbers.into_iter().any(|x| !x.is_finite()) {
        return None;
    }
    let (data, model) = (Ink::series(0), Ink::series(1));
    let legend = Legend::new(
        [
            (Swatch::Line(data), "data (Kaplan-Meier)"),
            (Swatch::Dashed(data), "its middle 90%"),
            (Swatch::Band(model), "drawn from the fitted model"),
        ],
        width - 4.0,
    );
    let height = HEIGHT + legend.height();
    let mut scene = Scene::new(width, height, format!("Survival along {}", text::fit(outcome, TICK, false, 300.0)));
    legend.draw(&mut scene, (0.0, 0.0));
    let head = legend.height() + 12.0;
    scene.text(TextLabel::new((0.0, head), "share without the event", TICK, Ink::MUTED));
    let (x, y) = (Scale::linear(times[0], times[times.len() - 1]), Scale::linear(0.0, 1.0));
    let ticks = axis::ticks(&y, 5);
    let left = axis::label_room(&ticks) + 2.0;
    let panel = Panel { left, right: width - 8.0, top: head + 12.0, bottom: height - 42.0, x, y };
    panel.y_axis(&mut scene, &ticks);
    let steps = |curves: &[[f64; 3]], which: usize| -> Vec<Point> {
        let before = [curves[0]].into_iter().chain(curves.iter().copied());
        let corners = times.iter().zip(before).zip(curves);
        corners.flat_map(|((x, before), of)| [panel.at((*x, before[which])), panel.at((*x, of[which]))]).collect()
    };
    let back = steps(replicated, 0).into_iter().rev();
    scene.area(steps(replicated, 2).into_iter().chain(back).collect(), model, 0.25);
    scene.line(steps(replicated, 1), model, 1.6);
    [0, 2].into_iter().for_each(|which| scene.dashed(steps(observed, which), data, 1.0));
    scene.line(steps(observed, 1), data, 2.0);
    panel.x_axis(&mut scene, &axis::side_by_side(|most| axis::ticks(&x, most), panel.right - left), false);
    let label = text::fit(outcome, TICK, true, panel.right - left);
    let middle = 0.5 * (left + panel.right);
    scene.text(TextLabel::new((middle, height - 6.0), label, TICK, Ink::TEXT).bold().anchored(Anchor::Middle));
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn_and_damaged_ones_are_not() {
        let mut check = SurvivalCheck {
            outcome: "days".into(),
            times: vec![0.0, 10.0, 20.0],
            observed: vec![[1.0; 3], [0.4, 0.6, 0.8], [0.0, 0.0, 0.3]],
            replicated: vec![[1.0; 3], [0.5, 0.6, 0.7], [0.1, 0.2, 0.3]],
            rows: 9,
            censored: 2,
        };
        assert!(draw(&check, 350.0).is_some() && draw(&check, 620.0).is_some());
        check.observed[1][0] = f64::NAN;
        assert!(draw(&check, 350.0).is_none());
        check.observed.pop();
        assert!(draw(&check, 350.0).is_none());
        (check.times, check.observed, check.replicated) = (vec![], vec![], vec![]);
        assert!(draw(&check, 350.0).is_none());
    }
}
