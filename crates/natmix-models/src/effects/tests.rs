//! Derivatives, constants and extremes of every family, with and without groups.

use super::{EffectsData, EffectsModel, Family, GroupCoefficients, Grouping, PriorStatement};
use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target, log_p_at};
use natmix::testing::{CheckOptions, check_target};

pub(super) const FAMILIES: [Family; 9] = [
    Family::Linear,
    Family::Logistic,
    Family::Poisson,
    Family::NegativeBinomial,
    Family::Robust,
    Family::Binomial,
    Family::Ordinal { categories: 4 },
    Family::Gamma,
    Family::Survival,
];

/// Deterministic, irregular numbers in (-1, 1).
pub(super) fn wave(i: usize) -> f64 {
    let x = (i as f64 * 12.9898 + 4.1414).sin() * 43_758.545_3;
    2.0 * (x - x.floor()) - 1.0
}

/// Outcomes that the family allows.
fn with_outcomes(family: Family, rows: usize, mut data: EffectsData) -> EffectsData {
    data.y = (0..rows)
        .map(|row| match family {
            Family::Linear | Family::Robust => 3.0 + 2.0 * wave(77 + row),
            Family::Logistic => (row % 2) as f64,
            Family::Poisson | Family::Binomial => (row % 5) as f64,
            // Large counts are treated apart.
            Family::NegativeBinomial => [0.0, 1.0, 7.0, 300.0][row % 4],
            Family::Ordinal { categories } => (row % categories) as f64,
            Family::Gamma | Family::Survival => (1.5 * wave(99 + row)).exp(),
        })
        .collect();
    if family == Family::Binomial {
        data.trials = Some((0..rows).map(|row| (row % 5 + row % 3) as f64).collect());
    }
    if family == Family::Survival {
        data.event = Some((0..rows).map(|row| row % 3 > 0).collect());
    }
    data
}

fn grouping(name: &str, rows: usize, levels: usize, columns: usize, correlated: bool) -> Grouping {
    let seed = name.len() * 1000;
    Grouping {
        name: name.into(),
        levels: (0..levels).map(|level| format!("{name}{level}")).collect(),
        level_of_row: (0..rows).map(|row| ((row * row + row / 3) % levels) as u32).collect(),
        columns: (0..columns).map(|k| format!("c{k}")).collect(),
        z: (0..rows * columns).map(|at| if at % columns == 0 { 1.0 } else { 2.0 * wave(seed + at) }).collect(),
        coefficients: if correlated { GroupCoefficients::Correlated } else { GroupCoefficients::Independent },
    }
}

/// Data with an intercept, a number and a 0/1 column, two crossed groupings, offsets and weights.
pub(super) fn crossed(family: Family, rows: usize) -> EffectsData {
    let data = EffectsData {
        names: vec!["one".into(), "x".into(), "dummy".into()],
        x: (0..rows).flat_map(|row| [1.0, 5.0 + wave(row), f64::from(u8::from(row % 3 == 1))]).collect(),
        groupings: vec![grouping("clinic", rows, 5, 3, true), grouping("year", rows, 4, 2, false)],
        offset: Some((0..rows).map(|row| 0.3 * wave(7 * row)).collect()),
        weights: Some((0..rows).map(|row| (row % 4) as f64 * 0.5).collect()),
        ..EffectsData::default()
    };
    with_outcomes(family, rows, data)
}

#[test]
fn derivatives_and_minibatches_are_right() {
    for family in FAMILIES {
        for centred in [false, true] {
            // More than a block of rows.
            let mut model = EffectsModel::new(family, crossed(family, 70), &[]).unwrap();
            model
                .groups
                .iter_mut()
                .for_each(|group| group.shape.centred.iter_mut().step_by(2).for_each(|c| *c = centred));
            let options = CheckOptions { spread: 0.5, points: 3, ..CheckOptions::default() };
            let report = check_target(&model, &options).unwrap();
            assert!(report.passed() && report.not_finite == 0, "{family:?}, centred {centred}: {report}");
        }
        let mut smooth = crossed(family, 40);
        smooth.groupings[1] = Grouping { coefficients: GroupCoefficients::Shared, ..grouping("s(x)", 40, 1, 3, false) };
        let model = EffectsModel::new(family, smooth, &[]).unwrap();
        assert!(model.parameter_names().ends_with(&["sd(s(x))", "c0", "c1", "c2"].map(String::from)));
        let report = check_target(&model, &CheckOptions { spread: 0.5, ..CheckOptions::default() }).unwrap();
        assert!(report.passed() && report.not_finite == 0, "{family:?}, smooth: {report}");
        let mut plain = crossed(family, 40);
        (plain.groupings, plain.offset, plain.weights) = (vec![], None, None);
        let report = check_target(&EffectsModel::new(family, plain, &[]).unwrap(), &CheckOptions::default()).unwrap();
        assert!(report.passed(), "{family:?}: {report}");
    }
}

#[test]
fn every_prior_can_be_changed() {
    let statements: Vec<PriorStatement> = [
        "x ~ student_t(3, 1, 2)",
        "one ~ cauchy(3, 1)",
        "dummy ~ laplace(0, 1)",
        "sigma ~ exponential(2)",
        "df ~ lognormal(2, 1)",
        "sd(clinic) ~ half_cauchy(1)",
        "sd(clinic, c1) ~ inverse_gamma(2, 1)",
        "sd(year) ~ gamma(2, 2)",
        "cor(clinic) ~ lkj(1)",
    ]
    .map(|text| text.parse().unwrap())
    .to_vec();
    let model = EffectsModel::new(Family::Robust, crossed(Family::Robust, 60), &statements).unwrap();
    let report = check_target(&model, &CheckOptions { spread: 0.5, ..CheckOptions::default() }).unwrap();
    assert!(report.passed(), "{report}");
    // They are reported in the units in which they were given.
    let shown: Vec<String> = model.priors().iter().map(|statement| statement.to_string()).collect();
    for (statement, at) in [("sigma ~ exponential(2", 3), ("cor(clinic) ~ lkj(1)", 8), ("x ~ student_t(3, ", 1)] {
        assert!(shown[at].starts_with(statement) || shown[at].contains("1.99999"), "{shown:?}");
    }
    // The density of one parameter in the units of the data, with its Jacobian: the difference of two priors.
    let default = EffectsModel::new(Family::Robust, crossed(Family::Robust, 60), &[]).unwrap();
    let changed = EffectsModel::new(Family::Robust, crossed(Family::Robust, 60), &statements[..1]).unwrap();
    let z: Vec<f64> = (0..model.dim()).map(wave).collect();
    let mut parameters = vec![0.0; z.len()];
    model.to_parameters(&z, &mut parameters);
    let expected = changed.priors()[1].prior.at(parameters[1])[0] - default.priors()[1].prior.at(parameters[1])[0];
    assert!((log_p_at(&changed, &z).unwrap() - log_p_at(&default, &z).unwrap() - expected).abs() < 1e-10);
    let message = |text: &str| {
        EffectsModel::new(Family::Linear, crossed(Family::Linear, 9), &[text.parse().unwrap()]).unwrap_err().to_string()
    };
    assert!(
        message("z ~ normal(0, 1)")
            .contains("there is no such parameter (there are one, x, dummy, sigma, sd(clinic, c0)")
    );
    assert!(message("sd(year) ~ normal(0, 1)").contains("positive numbers"));
    assert!(message("x ~ half_normal(1)").contains("needs one of numbers"));
    assert!(message("cor(clinic) ~ normal(0, 1)").contains("correlation matrices"));
    assert!(message("cor(year) ~ lkj(1)").contains("no such parameter"));
}

#[test]
fn priors_that_overflow_in_extreme_units_are_refused() {
    let mut data = crossed(Family::Linear, 30);
    data.y.iter_mut().for_each(|y| *y *= 1e-150);
    data.offset = None;
    data.x.iter_mut().skip(1).step_by(3).for_each(|x| *x *= 1e150);
    data.groupings[0].z.iter_mut().skip(1).step_by(3).for_each(|z| *z *= 1e150);
    let with = |statements: &[&str]| {
        let priors: Vec<PriorStatement> = statements.iter().map(|text| text.parse().unwrap()).collect();
        EffectsModel::new(Family::Linear, data.clone(), &priors).map(|model| model.dim())
    };
    assert!(with(&[]).is_ok());
    assert!(with(&["sigma ~ half_normal(1e-149)"]).is_ok());
    for (parameter, prior) in [
        ("x", "normal(0, 1)"),
        ("one", "normal(1e200, 1e-150)"),
        ("sigma", "exponential(1e-20)"),
        ("sd(clinic, c1)", "half_normal(1)"),
    ] {
        let message = with(&[&format!("{parameter} ~ {prior}")]).unwrap_err().to_string();
        assert!(message.contains(&format!("of {parameter} overflows in the units of the fit")), "{message}");
    }
}

/// The coordinates at which coefficients and further parameters have these values.
fn coordinates(model: &EffectsModel, wanted: &[f64], cuts: bool) -> Vec<f64> {
    let at = |z: &[f64]| {
        let mut parameters = vec![0.0; z.len()];
        model.to_parameters(z, &mut parameters);
        parameters
    };
    let (zeros, ones) = (at(&vec![0.0; wanted.len()]), at(&vec![1.0; wanted.len()]));
    let first = if cuts { 1 } else { 2 };
    (0..wanted.len())
        .map(|j| match (j < first, cuts && j == first, cuts) {
            (true, _, _) => (wanted[j] - zeros[j]) / (ones[j] - zeros[j]),
            (_, true, _) => wanted[j],
            (_, _, true) => (wanted[j] - wanted[j - 1]).ln(),
            _ => (wanted[j] / zeros[j]).ln(),
        })
        .collect()
}

#[test]
fn likelihoods_with_their_constants_are_those_of_scipy() {
    let count = [0.0, 3.0, 1.0, 700.0, 12.0, 2.0];
    let trials = [1.0, 5.0, 0.0, 1000.0, 15.0, 2.0];
    let mut seen = 0;
    for line in include_str!("../../testdata/effects/likelihoods.txt").lines() {
        let (name, expected) = line.split_once(' ').unwrap();
        let family = *FAMILIES.iter().find(|family| family.name() == name).unwrap();
        let mut data = EffectsData {
            names: vec!["one".into(), "x".into()],
            x: [0.0, 1.0, 1.0, 0.0, 1.0, 0.0].iter().flat_map(|x| [1.0, *x]).collect(),
            offset: Some(vec![0.1, -0.2, 0.0, 0.3, 0.05, -0.1]),
            weights: Some(vec![1.0, 2.0, 0.5, 1.0, 0.0, 3.0]),
            y: match family {
                Family::Linear | Family::Robust => vec![0.3, -1.2, 2.5, 0.9, -0.4, 7.0],
                Family::Poisson | Family::NegativeBinomial => count.to_vec(),
                Family::Binomial => count.iter().zip(trials).map(|(y, n)| y.min(n)).collect(),
                Family::Logistic => vec![0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
                Family::Ordinal { .. } => vec![0.0, 1.0, 3.0, 2.0, 2.0, 3.0],
                Family::Gamma | Family::Survival => vec![0.3, 1.2, 2.5, 0.9, 14.0, 7.0],
            },
            ..EffectsData::default()
        };
        data.trials = (family == Family::Binomial).then(|| trials.to_vec());
        data.event = (family == Family::Survival).then(|| vec![true, false, true, true, false, true]);
        let mut wanted = vec![0.4, -0.7];
        match family {
            Family::Linear => wanted.push(1.3),
            Family::Robust => wanted.extend([1.3, 3.7]),
            Family::NegativeBinomial | Family::Gamma => wanted.push(2.4),
            Family::Survival => wanted.push(1.8),
            // The intercept has gone into the cut points.
            Family::Ordinal { .. } => wanted = vec![-0.7, -0.9 - 0.4, 0.35 - 0.4, 1.6 - 0.4],
            _ => {}
        }
        let model = EffectsModel::new(family, data.clone(), &[]).unwrap();
        data.weights = Some(vec![0.0; 6]);
        let without = EffectsModel::new(family, data, &[]).unwrap();
        let z = coordinates(&model, &wanted, matches!(family, Family::Ordinal { .. }));
        let found = log_p_at(&model, &z).unwrap() - log_p_at(&without, &z).unwrap();
        let expected: f64 = expected.parse().unwrap();
        assert!((found - expected).abs() < 1e-11 * expected.abs().max(10.0), "{name}: {found}, not {expected}");
        seen += 1;
    }
    assert_eq!(seen, FAMILIES.len());
}

#[test]
fn extreme_points_have_a_low_density_or_none() {
    for family in FAMILIES {
        let model = EffectsModel::new(family, crossed(family, 40), &[]).unwrap();
        let d = model.dim();
        for at in 0..d {
            for size in [3.0, -3.0, 30.0, -30.0, 500.0, -500.0, 1e5, 1e200, f64::NAN, f64::INFINITY] {
                let mut z: Vec<f64> = (0..d).map(|j| 0.1 * wave(j)).collect();
                z[at] = size;
                let (mut log_p, mut grad) = ([0.0], vec![0.0; d]);
                let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
                model.eval(Rows::All, Points::new(&z, d), out, &mut Scratch::default()).unwrap();
                assert!(log_p[0].is_nan() || log_p[0] <= 200.0, "{family:?}, coordinate {at} = {size}: {}", log_p[0]);
                assert!(log_p[0].is_nan() || size.is_finite(), "{family:?}, coordinate {at} = {size}");
                // The exponential of a predictor may overflow, a logistic function of it does not.
                let grows = matches!(family, Family::Poisson | Family::Gamma | Family::Survival);
                if size.abs() == 3.0 || size.abs() == 30.0 && !grows {
                    let finite = log_p[0].is_finite() && grad.iter().all(|g| g.is_finite());
                    assert!(finite, "{family:?}, coordinate {at} = {size}: {} {grad:?}", log_p[0]);
                }
            }
        }
    }
}

#[test]
fn limits_of_the_shapes_are_simpler_families() {
    let rows = 50;
    // Of negative binomial counts with a large shape, and of Student's distribution with many degrees of freedom.
    for (family, limit, extra) in [(Family::NegativeBinomial, Family::Poisson, 0), (Family::Robust, Family::Linear, 1)]
    {
        let data = |family: Family, weight: f64| {
            let plain = EffectsData { names: vec!["x".into()], x: (0..rows).map(wave).collect(), ..Default::default() };
            let mut data = with_outcomes(Family::Poisson, rows, plain);
            data.weights = Some(vec![weight; rows]);
            // The default prior of the degrees of freedom is so small here that it would take all digits.
            let priors = ["df ~ lognormal(0, 30)".parse().unwrap()];
            EffectsModel::new(family, data, if family == Family::Robust { &priors } else { &[] }).unwrap()
        };
        let unit = |family: Family| {
            let mut parameters = vec![0.0; data(family, 1.0).dim()];
            data(family, 1.0).to_parameters(&vec![0.0; parameters.len()], &mut parameters);
            parameters
        };
        for log_shape in [14.0, 20.0, 28.0, 34.0] {
            let z_of = |family: Family, dim: usize| -> Vec<f64> {
                let mut z = vec![0.3; dim];
                if extra == 1 {
                    // The same sigma and coefficient in the units of the data, though those of the fit differ.
                    let scale = unit(family)[1];
                    z[0] = 0.3 / scale;
                    z[1] = (0.8 / scale).ln();
                }
                z
            };
            let mut z = z_of(family, 2 + extra);
            z[1 + extra] = log_shape;
            let simple = z_of(limit, 1 + extra);
            let likelihood = |family: Family, z: &[f64]| {
                log_p_at(&data(family, 1.0), z).unwrap() - log_p_at(&data(family, 0.0), z).unwrap()
            };
            let (found, expected) = (likelihood(family, &z), likelihood(limit, &simple));
            let tolerance = 1e5 * (-log_shape).exp() + 1e-9;
            assert!((found - expected).abs() < tolerance, "{family:?} at {log_shape}: {found}, not {expected}");
        }
    }
}

#[test]
fn bad_data_are_named() {
    let good = || crossed(Family::Linear, 6);
    let message = |family: Family, data: EffectsData| EffectsModel::new(family, data, &[]).unwrap_err().to_string();
    let change = |change: &dyn Fn(&mut EffectsData)| {
        let mut data = good();
        change(&mut data);
        message(Family::Linear, data)
    };
    assert!(change(&|data| data.y.clear()).contains("no rows"));
    assert!(change(&|data| data.x[4] = f64::NAN).contains("row 1, column 1 is NaN"));
    assert!(change(&|data| data.x.truncate(5)).contains("5 numbers are not 6 rows of 3 columns"));
    assert!(change(&|data| data.y[2] = f64::INFINITY).contains("row 2 is inf"));
    assert!(change(&|data| data.weights = Some(vec![-1.0; 6])).contains("row 0 is -1"));
    assert!(change(&|data| data.offset = Some(vec![0.0; 5])).contains("offset: 5 numbers"));
    assert!(change(&|data| data.trials = Some(vec![1.0; 6])).contains("linear has no trials"));
    assert!(change(&|data| data.event = Some(vec![true; 6])).contains("linear has no events"));
    assert!(change(&|data| data.groupings[0].level_of_row[3] = 9).contains("row 3 has level 9"));
    assert!(change(&|data| data.groupings[0].levels.clear()).contains("0 levels"));
    assert!(change(&|data| data.groupings[1].name = "clinic".into()).contains("`clinic` has a column twice"));
    assert!(change(&|data| data.groupings[1].z[3] = f64::NAN).contains("grouping `year`: row 1, column 1 is NaN"));
    assert!(message(Family::Binomial, good()).contains("number of trials"));
    assert!(message(Family::Gamma, crossed(Family::Poisson, 6)).contains("row 0 is 0, not a positive number"));
    let mut nothing = good();
    (nothing.names, nothing.x, nothing.groupings) = (vec![], vec![], vec![]);
    assert!(message(Family::Logistic, crossed(Family::Linear, 6)).contains("not 0 or 1"));
    nothing.y = vec![1.0; 6];
    assert!(message(Family::Poisson, nothing).contains("nothing to infer"));
}

#[test]
fn parameters_are_in_the_units_of_the_data() {
    // The predictor of a row, from the parameters and the columns as given, is that of the fit.
    for family in [Family::Linear, Family::Poisson, Family::Survival, Family::Ordinal { categories: 4 }] {
        let data = crossed(family, 30);
        let model = EffectsModel::new(family, data.clone(), &[]).unwrap();
        let z: Vec<f64> = (0..model.dim()).map(|j| 0.5 * wave(31 + j)).collect();
        let mut parameters = vec![0.0; z.len()];
        model.to_parameters(&z, &mut parameters);
        let names = model.parameter_names();
        assert_eq!(names.len(), model.dim());
        let value = |name: &str| parameters[names.iter().position(|known| known == name).expect(name)];
        // A correlation matrix is that of its Cholesky factor, so it is positive definite.
        let (a, b, c) = (value("cor(clinic, c0, c1)"), value("cor(clinic, c0, c2)"), value("cor(clinic, c1, c2)"));
        assert!(1.0 + 2.0 * a * b * c - a * a - b * b - c * c > 0.0);
        let moved = |row: usize| {
            // The log likelihood of one row alone, and of that row with its offset replaced by a predictor from the parameters.
            let mut predictor = data.offset.as_ref().unwrap()[row];
            for (name, x) in data.names.iter().zip(&data.x[3 * row..]) {
                predictor += if names.contains(name) { value(name) * x } else { 0.0 };
            }
            for grouping in &data.groupings {
                let level = &grouping.levels[grouping.level_of_row[row] as usize];
                let q = grouping.columns.len();
                for (column, z) in grouping.columns.iter().zip(&grouping.z[q * row..]) {
                    predictor += value(&format!("{}[{level}, {column}]", grouping.name)) * z;
                }
            }
            predictor
        };
        for row in 0..30 {
            let y = data.y[row];
            let expected = match family {
                Family::Linear => {
                    let sigma = value("sigma");
                    -0.5 * ((y - moved(row)) / sigma).powi(2) - sigma.ln() - 0.5 * crate::prior::LOG_TAU
                }
                Family::Poisson => y * moved(row) - moved(row).exp() - natmix::autodiff::special::ln_gamma(y + 1.0),
                Family::Survival => {
                    let (shape, seen) = (value("shape"), data.event.as_ref().unwrap()[row]);
                    let u = shape * (y.ln() - moved(row));
                    if seen { shape.ln() - y.ln() + u - u.exp() } else { -u.exp() }
                }
                _ => {
                    let below = |k: usize| match k {
                        0 => 0.0,
                        4 => 1.0,
                        _ => 1.0 / (1.0 + (moved(row) - value(&format!("cut[{k}]"))).exp()),
                    };
                    (below(y as usize + 1) - below(y as usize)).ln()
                }
            };
            let likelihood = |weight: f64| {
                let mut weights = vec![0.0; 30];
                weights[row] = weight;
                let data = EffectsData { weights: Some(weights), ..data.clone() };
                log_p_at(&EffectsModel::new(family, data, &[]).unwrap(), &z).unwrap()
            };
            let found = likelihood(1.0) - likelihood(0.0);
            assert!((found - expected).abs() < 1e-9, "{family:?}, row {row}: {found}, not {expected}");
        }
    }
}

#[test]
fn correlations_have_the_lkj_density() {
    // In three dimensions det(R)^(shape - 1) times a constant, whatever the correlations.
    let statement = |shape: f64| format!("cor(clinic) ~ lkj({shape})").parse::<PriorStatement>().unwrap();
    let model =
        |shape: f64| EffectsModel::new(Family::Linear, crossed(Family::Linear, 20), &[statement(shape)]).unwrap();
    let differences: Vec<f64> = (0..5)
        .map(|i| {
            let z: Vec<f64> = (0..model(1.0).dim()).map(|j| wave(100 * i + j)).collect();
            let first = model(1.0).groups[0].first + 3;
            let r = super::group_shape::correlation_matrix(3, &z[first..first + 3]);
            let det = 1.0 + 2.0 * r[1] * r[2] * r[5] - r[1] * r[1] - r[2] * r[2] - r[5] * r[5];
            log_p_at(&model(3.0), &z).unwrap() - log_p_at(&model(1.0), &z).unwrap() - 2.0 * det.ln()
        })
        .collect();
    // The integral of det(R)^0 is pi^2/2, that of det(R)^2 is 5/24 of it.
    assert!(differences.iter().all(|x| (x - 4.8f64.ln()).abs() < 1e-9), "{differences:?}");
}
