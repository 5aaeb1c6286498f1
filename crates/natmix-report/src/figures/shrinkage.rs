//! Shrinkage: the coefficients of groups in the posterior, beside those that each group has alone.

use super::Picture;
use super::forest::ForestFrame;
use crate::figure::axis::Scale;
use crate::figure::legend::{Legend, Swatch};
use crate::figure::{Ink, Scene};
use crate::{GroupEstimates, Report, number};

/// Most groups in one picture: of more, evenly spaced ones in the order of their rows.
const MOST_GROUPS: usize = 30;
/// Most pictures.
const MOST_PANELS: usize = 6;
/// Least height of a line, which has two bars.
const LINE: f64 = 18.0;
/// How far the axis may reach beyond the posterior's intervals, as a multiple of their extent: estimates of a few rows may be anywhere.
const BEYOND: f64 = 0.6;

/// Series of the fit and of groups alone.
const FIT: usize = 0;
const ALONE: usize = 1;

/// The picture; none without groups, or where its numbers do not belong together.
pub fn picture(report: &Report) -> Option<Picture> {
    let shown: Vec<&GroupEstimates> =
        report.group_estimates.iter().filter(|found| is_sound(found)).take(MOST_PANELS).collect();
    let kind = &report.model.kind;
    let layout = super::panels(&shown, |found, width| Some(draw(found, kind, width)))?;
    let without = shown.iter().any(|found| found.alone.iter().any(Option::is_none));
    let without = if without {
        " A group has no estimate of its own where its rows do not determine one: too few, or outcomes at one end or separated by the \
         columns."
    } else {
        ""
    };
    let most = shown.iter().map(|found| found.levels.len()).max().unwrap_or(0);
    let spaced = match most {
        ..=MOST_GROUPS => String::new(),
        _ => format!(
            " Of more than {MOST_GROUPS} groups, {MOST_GROUPS} are shown, evenly spaced in the order of their rows."
        ),
    };
    Some(Picture {
        name: "shrinkage",
        heading: "How groups learn from one another",
        caption: format!(
            "The coefficient of each group in the fit (medians, and bars over the middle 90%) beside the one that its own rows would \
             give alone, with the number of rows in parentheses; all else is held at its mean. Groups with few rows, which come first, are \
             drawn furthest towards the solid line, around which groups vary. The dashed line is the estimate that takes all groups for \
             one. Bars that reach the edge go on beyond it.{without}{spaced}"
        ),
        layout,
    })
}

fn is_sound(found: &GroupEstimates) -> bool {
    let count = found.levels.len();
    let numbers = found.partial.iter().chain(found.alone.iter().flatten()).flatten();
    let sized = found.rows.len() == count && found.partial.len() == count && found.alone.len() == count;
    count > 0 && sized && numbers.chain([&found.shared]).chain(&found.pooled).all(|x| x.is_finite())
}

fn draw(found: &GroupEstimates, kind: &str, width: f64) -> Scene {
    let mut order: Vec<usize> = (0..found.levels.len()).collect();
    order.sort_by_key(|level| found.rows[*level]);
    let shown = order.len().min(MOST_GROUPS);
    let of = |i: usize| order[if shown > 1 { i * (order.len() - 1) / (shown - 1) } else { 0 }];
    let levels: Vec<usize> = (0..shown).map(of).collect();
    let names: Vec<String> = levels
        .iter()
        .map(|level| format!("{} ({})", found.levels[*level], number::count(found.rows[*level] as u64)))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let legend = Legend::new(
        [
            (Swatch::Interval(Ink::series(FIT)), "in the fit"),
            (Swatch::Interval(Ink::series(ALONE)), "each group alone"),
            (Swatch::Line(Ink::AXIS), "centre of the groups"),
            (Swatch::Dashed(Ink::TEXT), "all groups as one"),
        ],
        width - 4.0,
    );
    let x = range(found, &levels);
    let column = &found.column;
    let title = format!("{}: {column}", found.grouping);
    let mut frame = ForestFrame::new(&names, x, (width, legend.height()), LINE, &title);
    legend.draw(&mut frame.scene, (0.0, 0.0));
    let centre = frame.upright(found.shared);
    frame.scene.line(centre, Ink::AXIS, 1.6);
    for (i, level) in levels.iter().enumerate() {
        let y = frame.row(i);
        let mut bar = |quantiles: [f64; 3], y: f64, series, width, radius| {
            let ink = Ink::series(series);
            let [low, middle, high] = quantiles.map(|x| frame.panel.px(x));
            frame.scene.line(vec![(low, y), (high, y)], ink, width);
            if (x.lo..=x.hi).contains(&quantiles[1]) {
                frame.scene.dots(vec![(middle, y)], radius, ink, 1.0);
            }
        };
        if let Some(alone) = found.alone[*level] {
            bar(alone, y + 3.2, ALONE, 1.2, 2.4);
        }
        bar(found.partial[*level], y - 3.2, FIT, 2.4, 3.2);
    }
    if let Some(pooled) = found.pooled.filter(|pooled| (x.lo..=x.hi).contains(pooled)) {
        let pooled = frame.upright(pooled);
        frame.scene.dashed(pooled, Ink::TEXT, 1.2);
    }
    frame.finish(&format!("{}: {}", found.grouping, super::effects::measured(kind, column)))
}

/// A range with all intervals of the fit, and of the groups alone what is not far beyond.
fn range(found: &GroupEstimates, levels: &[usize]) -> Scale {
    let wider = |(low, high): (f64, f64), x: f64| (low.min(x), high.max(x));
    let of_fit = levels.iter().flat_map(|level| found.partial[*level]);
    let (low, high) = of_fit.fold((found.shared, found.shared), wider);
    let room = BEYOND * (high - low);
    let alone = levels.iter().filter_map(|level| found.alone[*level]).flatten();
    let all = alone.chain(found.pooled).map(|x| x.clamp(low - room, high + room));
    let (low, high) = all.fold((low, high), wider);
    Scale::linear(low, high).padded(0.02)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Mark;

    fn found(groups: usize) -> GroupEstimates {
        GroupEstimates {
            grouping: "clinic".into(),
            column: "(intercept)".into(),
            levels: (0..groups).map(|i| format!("c{i}")).collect(),
            rows: (0..groups).map(|i| 1 + (7 * i) % groups).collect(),
            partial: (0..groups).map(|i| [i as f64 - 1.0, i as f64, i as f64 + 1.0]).collect(),
            alone: (0..groups).map(|i| (i != 1).then_some([-1e6, 2.0 * i as f64, 1e6])).collect(),
            shared: 1.0,
            pooled: Some(1.5),
        }
    }

    #[test]
    fn groups_are_shown_by_their_rows_and_marks_stay_inside() {
        let scene = draw(&found(40), "logistic", 300.0);
        let texts: Vec<&str> = scene
            .marks
            .iter()
            .filter_map(|mark| if let Mark::Text(label) = mark { Some(label.text.as_str()) } else { None })
            .collect();
        let groups: Vec<&&str> = texts.iter().filter(|text| text.ends_with(')') && !text.contains(':')).collect();
        assert_eq!(groups.len(), MOST_GROUPS);
        assert!(groups[0].ends_with("(1)") && groups[MOST_GROUPS - 1].ends_with("(40)"), "{groups:?}");
        for mark in &scene.marks {
            if let Mark::Lines { paths, .. } = mark {
                assert!(
                    paths.iter().flatten().all(|(x, y)| (0.0..=300.0).contains(x) && (0.0..=scene.height).contains(y))
                );
            }
        }
    }

    #[test]
    fn damaged_numbers_are_not_drawn() {
        assert!(is_sound(&found(3)) && !is_sound(&found(0)));
        let mut short = found(3);
        short.alone.pop();
        let mut infinite = found(3);
        infinite.partial[0][2] = f64::INFINITY;
        assert!(!is_sound(&short) && !is_sound(&infinite));
    }
}
