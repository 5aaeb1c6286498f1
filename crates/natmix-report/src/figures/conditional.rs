//! Conditional effects: the expected outcome along one column, or the probability of each class, with a band over the middle 90%.

use crate::figure::axis::{self, Panel, Scale, TICK};
use crate::figure::legend::{Legend, Swatch};
use crate::figure::{Anchor, Ink, Scene, TextLabel, text};
use crate::{ClassEffect, ConditionalEffect, number};

const HEIGHT: f64 = 220.0;
/// Most levels of a category that have a place each.
const MOST_LEVELS: usize = 12;
/// The same for levels times classes.
const MOST_PLACES: usize = 40;
/// Pixels between the classes of a level.
const APART: f64 = 8.0;

/// One line along the column.
struct Curve<'a> {
    expected: &'a [[f64; 3]],
    ink: Ink,
}

/// The picture of one column; none where its numbers are not finite.
pub fn draw(effect: &ConditionalEffect, width: f64) -> Option<Scene> {
    let ConditionalEffect { column, outcome, values, levels, classes, .. } = effect;
    let shown = likeliest(classes);
    let places = (MOST_PLACES / shown.len().max(1)).min(MOST_LEVELS);
    let count = values.len().min(if levels.is_some() { places } else { usize::MAX });
    let values = values.get(..count)?;
    let (first, last) = (*values.first()?, *values.last()?);
    let lists =
        shown.iter().map(|class| &class.expected).chain([&effect.expected].into_iter().filter(|_| shown.is_empty()));
    let curve = |(series, expected): (usize, &'_ Vec<[f64; 3]>)| {
        expected.get(..count).map(<[_]>::to_vec).map(|of| (series, of))
    };
    let owned: Vec<(usize, Vec<[f64; 3]>)> = lists.enumerate().map(curve).collect::<Option<_>>()?;
    let curves: Vec<Curve> =
        owned.iter().map(|(series, of)| Curve { expected: of, ink: Ink::series(*series) }).collect();
    let numbers = || curves.iter().flat_map(|curve| curve.expected);
    if numbers().flatten().chain(values).any(|x| !x.is_finite()) {
        return None;
    }
    let hidden = classes.len() - shown.len();
    let more = format!("{} less likely not shown", number::count(hidden as u64));
    let named = shown.iter().enumerate().map(|(i, class)| (Swatch::Line(Ink::series(i)), class.name.as_str()));
    let legend = Legend::new(named.chain((hidden > 0).then_some((Swatch::None, more.as_str()))), width - 4.0);
    let head = 24.0 + legend.height();
    let height = HEIGHT + legend.height();
    let mut scene = Scene::new(width, height, format!("{outcome} along {column}"));
    let lowest = numbers().map(|of| of[0]).fold(f64::INFINITY, f64::min);
    let highest = numbers().map(|of| of[2]).fold(f64::NEG_INFINITY, f64::max);
    let y =
        if shown.is_empty() { Scale::linear(lowest, highest).padded(0.06) } else { Scale::linear(0.0, 1.04 * highest) };
    let ticks = axis::ticks(&y, 5);
    let x = if levels.is_some() { Scale::linear(-0.5, count as f64 - 0.5) } else { Scale::linear(first, last) };
    let left = axis::label_room(&ticks) + 6.0;
    let panel = Panel { left, right: width - 8.0, top: head, bottom: height - 42.0, x, y };
    panel.y_axis(&mut scene, &ticks);
    scene.text(TextLabel::new((0.0, 12.0), text::fit(outcome, TICK, false, width), TICK, Ink::MUTED));
    legend.draw(&mut scene, (0.0, 19.0));
    if let Some(levels) = levels {
        draw_levels(&mut scene, &panel, &curves, &levels[..count.min(levels.len())]);
    } else {
        draw_bands(&mut scene, &panel, &curves, values);
    }
    let hidden = effect.values.len() - count;
    let name = match hidden {
        0 => column.clone(),
        hidden => format!("{column} ({} more not shown)", number::count(hidden as u64)),
    };
    let label = text::fit(&name, TICK, true, panel.right - panel.left);
    let middle = 0.5 * (panel.left + panel.right);
    scene.text(TextLabel::new((middle, height - 6.0), label, TICK, Ink::TEXT).bold().anchored(Anchor::Middle));
    Some(scene)
}

/// The classes that are drawn, in their order: as many as there are colours, those that become the likeliest.
fn likeliest(classes: &[ClassEffect]) -> Vec<&ClassEffect> {
    let top = |class: &ClassEffect| class.expected.iter().map(|of| of[1]).fold(0.0, f64::max);
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by(|a, b| top(&classes[*b]).total_cmp(&top(&classes[*a])));
    order.truncate(Ink::SERIES);
    order.sort_unstable();
    order.into_iter().map(|class| &classes[class]).collect()
}

/// A bar for each level, those of classes beside one another.
fn draw_levels(scene: &mut Scene, panel: &Panel, curves: &[Curve], levels: &[String]) {
    let each = (panel.right - panel.left) / levels.len() as f64;
    let apart = APART.min(0.8 * each / curves.len() as f64);
    let small = if apart < APART { 0.7 } else { 1.0 };
    for (i, curve) in curves.iter().enumerate() {
        let shift = apart * (i as f64 - 0.5 * (curves.len() - 1) as f64);
        for (level, [low, middle, high]) in curve.expected.iter().enumerate() {
            let at = panel.px(level as f64) + shift;
            scene.line(vec![(at, panel.py(*low)), (at, panel.py(*high))], curve.ink, small * 2.4);
            scene.dots(vec![(at, panel.py(*middle))], small * 3.6, curve.ink, 1.0);
        }
    }
    for (level, name) in levels.iter().enumerate() {
        let at = (panel.px(level as f64), panel.bottom + 16.0);
        let label = text::fit(name, TICK, false, each - 4.0);
        scene.text(TextLabel::new(at, label, TICK, Ink::MUTED).anchored(Anchor::Middle));
    }
    scene.line(vec![(panel.left, panel.bottom), (panel.right, panel.bottom)], Ink::AXIS, 1.0);
}

/// A line within a band for each curve along numbers.
fn draw_bands(scene: &mut Scene, panel: &Panel, curves: &[Curve], values: &[f64]) {
    for curve in curves {
        let along = |which: usize| values.iter().zip(curve.expected).map(move |(x, of)| panel.at((*x, of[which])));
        let back: Vec<_> = along(0).collect();
        scene.area(along(2).chain(back.into_iter().rev()).collect(), curve.ink, 0.25);
    }
    for curve in curves {
        scene.line(values.iter().zip(curve.expected).map(|(x, of)| panel.at((*x, of[1]))).collect(), curve.ink, 2.0);
    }
    let make = |most| axis::ticks(&panel.x, most);
    panel.x_axis(scene, &axis::side_by_side(make, panel.right - panel.left), false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;

    fn effect() -> ConditionalEffect {
        ConditionalEffect {
            column: "age".into(),
            outcome: "income".into(),
            values: vec![20.0, 30.0, 40.0],
            levels: None,
            expected: vec![[1.0, 2.0, 3.0], [2.0, 3.0, 4.0], [3.0, 5.0, 9.0]],
            classes: vec![],
        }
    }

    #[test]
    fn numbers_and_categories_are_drawn_and_infinite_ones_are_not() {
        let mut effect = effect();
        assert!(draw(&effect, 300.0).is_some());
        effect.levels = Some(["a", "b", "c"].map(String::from).to_vec());
        assert!(draw(&effect, 300.0).is_some());
        effect.expected[1][2] = f64::INFINITY;
        assert!(draw(&effect, 300.0).is_none());
        (effect.values, effect.expected) = (vec![], vec![]);
        assert!(draw(&effect, 300.0).is_none());
    }

    #[test]
    fn every_class_has_a_line_and_of_many_the_likeliest_have() {
        let class = |i: usize| ClassEffect {
            name: format!("class {i}"),
            expected: vec![[0.01 * i as f64, 0.02 * i as f64, 0.03 * i as f64]; 3],
        };
        let mut effect = ConditionalEffect { expected: vec![], classes: (0..11).map(class).collect(), ..effect() };
        let names = |scene: &Scene| -> Vec<String> {
            let text = |mark: &Mark| if let Mark::Text(label) = mark { Some(label.text.clone()) } else { None };
            scene.marks.iter().filter_map(text).filter(|text| text.starts_with("class")).collect()
        };
        let scene = draw(&effect, 300.0).unwrap();
        assert_eq!(names(&scene), (3..11).map(|i| format!("class {i}")).collect::<Vec<_>>());
        let areas = |scene: &Scene| scene.marks.iter().filter(|mark| matches!(mark, Mark::Area { .. })).count();
        assert_eq!(areas(&scene), 8);
        effect.levels = Some(["a", "b", "c"].map(String::from).to_vec());
        let dots =
            draw(&effect, 300.0).unwrap().marks.into_iter().filter(|mark| matches!(mark, Mark::Dots { .. })).count();
        assert_eq!(dots, 24);
        // Lists of another length, as in a damaged file.
        effect.classes[5].expected.pop();
        assert!(draw(&effect, 300.0).is_none());
    }
}
