//! Series against the rows that they stand for.

use super::super::cells::LARGE;
use super::super::tests::wave;
use super::super::{EffectsData, EffectsModel, Family, GroupCoefficients, Grouping};
use super::*;
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target};

const FAMILIES: [Family; 5] = [Family::Linear, Family::Logistic, Family::Binomial, Family::Poisson, Family::Gamma];

/// Rows of some levels in turn, with an intercept, a number and perhaps a slope that varies; offsets and weights.
fn table(family: Family, levels: usize, slopes: bool) -> EffectsData {
    let rows = LARGE;
    let x: Vec<f64> = (0..rows).map(|row| 2.0 + wave(row) + wave(5 * row + 1)).collect();
    let level_of_row: Vec<u32> = (0..rows).map(|row| (row * 7 % levels) as u32).collect();
    let effect = |row: usize, of: usize| wave(of + level_of_row[row] as usize);
    let eta = |row: usize| {
        0.4 * x[row] - 1.0 + 0.5 * effect(row, 9) + if slopes { 0.4 * effect(row, 70) * x[row] } else { 0.0 }
    };
    let y = (0..rows).map(|row| match family {
        Family::Linear => eta(row) + wave(3 * row),
        Family::Logistic => f64::from(u8::from(0.5 + 0.5 * wave(3 * row) < 1.0 / (1.0 + (-eta(row)).exp()))),
        Family::Gamma => (eta(row) + wave(3 * row)).exp(),
        _ => ((eta(row) + wave(3 * row)).exp()).floor().min(4.0),
    });
    let columns = if slopes { vec!["(intercept)".into(), "x".into()] } else { vec!["(intercept)".into()] };
    let z = (0..rows).flat_map(|row| if slopes { vec![1.0, x[row]] } else { vec![1.0] }).collect();
    EffectsData {
        y: y.collect(),
        trials: (family == Family::Binomial).then(|| vec![4.0; rows]),
        names: vec!["(intercept)".into(), "x".into()],
        x: x.iter().flat_map(|x| [1.0, *x]).collect(),
        groupings: vec![Grouping {
            name: "g".into(),
            levels: (0..levels).map(|level| level.to_string()).collect(),
            level_of_row,
            columns,
            z,
            coefficients: GroupCoefficients::Correlated,
        }],
        offset: Some((0..rows).map(|row| 0.2 * wave(7 * row)).collect()),
        weights: Some((0..rows).map(|row| 0.5 * (1 + row % 4) as f64).collect()),
        ..EffectsData::default()
    }
}

fn values(model: &EffectsModel, points: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let d = model.dim();
    let (mut log_p, mut grad) = (vec![0.0; points.len() / d], vec![0.0; points.len()]);
    let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
    model.eval(Rows::All, Points::new(points, d), out, &mut Scratch::default()).unwrap();
    (log_p, grad)
}

/// A point at the places of the cells, and `far` times the standard deviations of their predictors away.
fn point(model: &EffectsModel, seed: usize, far: f64) -> Vec<f64> {
    let series = model.series.as_ref().unwrap();
    let group = &model.groups[0];
    let mut z = vec![0.0; model.dim()];
    let slopes = group.q > 1;
    let sd_of_slope = series.cells[0].place.sd[1];
    // Of all cells, or as the mean of their own.
    let slope = series.cells.iter().map(|cell| cell.place.base[1]).sum::<f64>() / series.cells.len() as f64;
    z[1] = slope + far * sd_of_slope * wave(seed) * 0.5;
    let first = group.first + group.shape.scales();
    for (level, cell) in series.cells.iter().enumerate() {
        // All scales are one, so that levels that are not centred have their effects as coordinates, too.
        let own = [cell.place.base[0] + far * cell.place.sd[0] * wave(seed + 3 * level), 0.0];
        let mut effects = [own[0], 0.0];
        let mut mean_of_x = cell.means[group.q + 1];
        if slopes {
            effects[1] = (cell.place.base[1] * cell.columns_factor(series, 1)) - z[1] * cell.columns_factor(series, 3);
            mean_of_x = cell.means[3];
            effects[0] -= effects[1] * cell.means[1];
        }
        effects[0] -= mean_of_x * z[1];
        for k in 0..group.q {
            z[first + level * group.q + k] = effects[k]
                + group.shape.around.parts(level * group.q + k).map(|(j, factor)| factor * z[j]).sum::<f64>();
        }
    }
    z
}

impl Cell {
    /// The factor of the direction of a column.
    fn columns_factor(&self, series: &Series, column: usize) -> f64 {
        series.columns[column].direction.map_or(0.0, |(_, factor)| factor)
    }
}

#[test]
fn series_are_the_rows_that_they_stand_for() {
    for family in FAMILIES {
        for slopes in [false, true] {
            let model = EffectsModel::new(family, table(family, 20, slopes), &[]).unwrap();
            let series = model.series.as_ref().unwrap_or_else(|| panic!("{family:?}, slopes {slopes}"));
            // Some levels have so few successes or failures that no series reaches far enough.
            let known = series.cells.iter().filter(|cell| cell.radius > 0.0).count();
            assert!(series.cells.len() == 20 && known >= 10, "{family:?}, slopes {slopes}: {known}");
            let exact = EffectsModel { series: None, ..model.clone() };
            let inside = |z: &[f64]| {
                let lanes: Vec<f64> = z.iter().flat_map(|z| [*z; LANES]).collect();
                let mut effects = vec![0.0; model.groups[0].shape.effects()];
                let group = &model.groups[0];
                group.shape.effects_at(z, &z[group.first..], &mut effects);
                let effects: Vec<f64> = effects.into_iter().flat_map(|b| [b; LANES]).collect();
                series.cells.iter().filter(|cell| series.distances(cell, &lanes, &effects).1[0]).count()
            };
            let (mut points, mut by_series) = (Vec::new(), Vec::new());
            for (seed, far) in [0.0, 1.0, 4.0, 8.0, 20.0, 100.0, 1.0, 3.0, 60.0].into_iter().enumerate() {
                let z = point(&model, 100 * seed, far);
                by_series.push(inside(&z));
                points.extend(z);
            }
            // All cells near their places, some far away, and none very far away unless the series ends.
            assert!(by_series[..3].iter().all(|count| *count == known), "{family:?}, {slopes}: {by_series:?}");
            assert!(family == Family::Linear || by_series[5] < known, "{family:?}, {slopes}: {by_series:?}");
            let ((log_p, grad), (exact_p, exact_grad)) = (values(&model, &points), values(&exact, &points));
            for (i, (found, expected)) in log_p.iter().zip(&exact_p).enumerate() {
                let error = (found - expected).abs();
                assert!(error < 1e-7 + 1e-12 * expected.abs(), "{family:?}, {slopes}, {i}: {found}, not {expected}");
            }
            let d = model.dim();
            for (i, (found, expected)) in grad.iter().zip(&exact_grad).enumerate() {
                let size = exact_grad[i / d * d..(i / d + 1) * d].iter().fold(1.0f64, |most, g| most.max(g.abs()));
                assert!((found - expected).abs() < 1e-8 * size, "{family:?}, {slopes}, {i}: {found}, not {expected}");
            }
            // A point has the same bits alone as beside others, some of which are further away.
            for (i, z) in points.chunks_exact(d).enumerate() {
                let (alone, grad_alone) = values(&model, z);
                assert!(alone[0] == log_p[i] && grad_alone == grad[i * d..(i + 1) * d], "{family:?}, {slopes}, {i}");
            }
        }
    }
}

#[test]
fn coefficients_are_those_of_taylor() {
    let (mut out, mut shares) = (vec![0.0; 29], vec![0.0; 29]);
    for (family, y, other) in [
        (Family::Logistic, 1.0, 0.0),
        (Family::Binomial, 3.0, 5.0),
        (Family::Poisson, 4.0, 0.0),
        (Family::Gamma, 0.7, 0.0),
        (Family::Linear, -0.4, 0.0),
    ] {
        let value = |eta: f64| match family {
            Family::Linear => -0.5 * (y - eta) * (y - eta),
            Family::Poisson => y * eta - eta.exp(),
            Family::Gamma => 1.0 + (y - eta) - (y - eta).exp(),
            _ => y * eta - (y + other) * (eta.max(0.0) + (-eta.abs()).exp().ln_1p()),
        };
        for eta in [-4.0, -0.3, 0.0, 1.2, 3.0] {
            taylor_of(family, (y, other), eta, &mut out, &mut shares);
            for step in [-0.9, -0.2, 0.0, 0.4, 0.8] {
                let found = out.iter().rev().fold(0.0, |sum, c| sum * step + c);
                let error = (found - value(eta + step)).abs();
                assert!(error < 1e-13 * value(eta).abs().max(10.0), "{family:?} at {eta} + {step}: {error}");
            }
            // The bounds that the radius is made of.
            for (k, coefficient) in out.iter().enumerate().skip(2) {
                let most = match family {
                    Family::Linear => {
                        if k == 2 {
                            0.5
                        } else {
                            0.0
                        }
                    }
                    Family::Logistic | Family::Binomial => 2.5 * (y + other) / (k as f64 * PI.powi(k as i32)),
                    Family::Poisson => (1..=k).fold(eta.exp(), |term, k| term / k as f64),
                    _ => (1..=k).fold((y - eta).exp(), |term, k| term / k as f64),
                };
                assert!(
                    coefficient.abs() <= most * (1.0 + 1e-6) + 1e-18,
                    "{family:?} at {eta}, {k}: {coefficient}, {most}"
                );
            }
        }
    }
}

#[test]
fn small_tables_and_many_columns_have_rows() {
    let mut small = table(Family::Logistic, 20, false);
    let rows = LARGE - 1;
    small.y.truncate(rows);
    small.x.truncate(2 * rows);
    small.offset.as_mut().unwrap().truncate(rows);
    small.weights.as_mut().unwrap().truncate(rows);
    small.groupings[0].level_of_row.truncate(rows);
    small.groupings[0].z.truncate(rows);
    assert!(EffectsModel::new(Family::Logistic, small, &[]).unwrap().series.is_none());
    let mut wide = table(Family::Logistic, 20, false);
    wide.names = (0..5).map(|j| j.to_string()).collect();
    wide.x = (0..5 * LARGE).map(|at| if at % 5 == 0 { 1.0 } else { wave(at) }).collect();
    assert!(EffectsModel::new(Family::Logistic, wide, &[]).unwrap().series.is_none());
    // Levels of very few rows.
    assert!(EffectsModel::new(Family::Poisson, table(Family::Poisson, 10_000, false), &[]).unwrap().series.is_none());
}

/// Of the same outcomes in the same rows, whatever their order.
#[test]
fn outcomes_are_drawn_in_the_order_of_the_table() {
    let data = table(Family::Linear, 20, false);
    let model = EffectsModel::new(Family::Linear, data.clone(), &[]).unwrap();
    // Without noise the outcome is the predictor, which grows with x within a level.
    let mut z = vec![0.0; model.dim()];
    (z[1], z[2]) = (1.0, -30.0);
    let y = model.outcomes_at(&z, 1);
    let mut of_level: Vec<(f64, f64)> = (0..LARGE)
        .filter(|row| data.groupings[0].level_of_row[*row] == 3)
        .map(|row| (data.x[2 * row + 1], y[row] - data.offset.as_ref().unwrap()[row]))
        .collect();
    of_level.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert!(of_level.windows(2).all(|pair| pair[0].1 <= pair[1].1 + 1e-9));
}
