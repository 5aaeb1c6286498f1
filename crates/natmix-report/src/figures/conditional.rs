//! Conditional effects: the expected outcome along one column, with a band over the middle 90%.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{ConditionalEffect, number};

const HEIGHT: f64 = 220.0;
/// Most levels of a category that have a place each.
const MOST_LEVELS: usize = 12;

/// The picture of one column; none where its numbers are not finite.
pub fn draw(effect: &ConditionalEffect, width: f64) -> Option<Scene> {
    let ConditionalEffect { column, outcome, values, levels, expected } = effect;
    let count = values.len().min(if levels.is_some() { MOST_LEVELS } else { usize::MAX });
    let (values, expected) = (values.get(..count)?, expected.get(..count)?);
    let (first, last) = (*values.first()?, *values.last()?);
    if expected.iter().flatten().chain(values).any(|x| !x.is_finite()) {
        return None;
    }
    let mut scene = Scene::new(width, HEIGHT, format!("{outcome} along {column}"));
    let low = expected.iter().map(|of| of[0]).fold(f64::INFINITY, f64::min);
    let high = expected.iter().map(|of| of[2]).fold(f64::NEG_INFINITY, f64::max);
    let y = Scale::linear(low, high).padded(0.06);
    let ticks = axis::ticks(&y, 5);
    let x = if levels.is_some() { Scale::linear(-0.5, count as f64 - 0.5) } else { Scale::linear(first, last) };
    let panel =
        Panel { left: axis::label_room(&ticks) + 6.0, right: width - 8.0, top: 24.0, bottom: HEIGHT - 42.0, x, y };
    panel.y_axis(&mut scene, &ticks);
    scene.text(TextLabel::new((0.0, 12.0), text::fit(outcome, TICK, false, width), TICK, Ink::MUTED));
    let room = panel.right - panel.left;
    if let Some(levels) = levels {
        let each = room / count as f64;
        for (i, ([low, middle, high], level)) in expected.iter().zip(levels).enumerate() {
            let at = panel.px(i as f64);
            scene.line(vec![(at, panel.py(*low)), (at, panel.py(*high))], Ink::series(0), 2.4);
            scene.dots(vec![(at, panel.py(*middle))], 3.6, Ink::series(0), 1.0);
            let label = text::fit(level, TICK, false, each - 4.0);
            scene.text(TextLabel::new((at, panel.bottom + 16.0), label, TICK, Ink::MUTED).anchored(Anchor::Middle));
        }
        scene.line(vec![(panel.left, panel.bottom), (panel.right, panel.bottom)], Ink::AXIS, 1.0);
    } else {
        let along = |which: usize| values.iter().zip(expected).map(move |(x, of)| panel.at((*x, of[which])));
        let back: Vec<_> = along(0).collect();
        scene.area(along(2).chain(back.into_iter().rev()).collect(), Ink::series(0), 0.25);
        scene.line(along(1).collect(), Ink::series(0), 2.0);
        panel.x_axis(&mut scene, &axis::side_by_side(|most| axis::ticks(&x, most), room), false);
    }
    let hidden = effect.values.len() - count;
    let name = match hidden {
        0 => column.clone(),
        hidden => format!("{column} ({} more not shown)", number::count(hidden as u64)),
    };
    let label = text::fit(&name, TICK, true, room);
    let middle = 0.5 * (panel.left + panel.right);
    scene.text(TextLabel::new((middle, HEIGHT - 6.0), label, TICK, Ink::TEXT).bold().anchored(Anchor::Middle));
    Some(scene)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_categories_are_drawn_and_infinite_ones_are_not() {
        let mut effect = ConditionalEffect {
            column: "age".into(),
            outcome: "income".into(),
            values: vec![20.0, 30.0, 40.0],
            levels: None,
            expected: vec![[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 5.0, 9.0]],
        };
        assert!(draw(&effect, 300.0).is_some());
        effect.levels = Some(["a", "b", "c"].map(String::from).to_vec());
        assert!(draw(&effect, 300.0).is_some());
        effect.expected[1][2] = f64::INFINITY;
        assert!(draw(&effect, 300.0).is_none());
        (effect.values, effect.expected) = (vec![], vec![]);
        assert!(draw(&effect, 300.0).is_none());
    }
}
