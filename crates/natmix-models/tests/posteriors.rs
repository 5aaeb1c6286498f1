//! Posteriors, predictions and leave-one-out figures of the regressions, against closed forms, quadrature and refits.

#[path = "common/regressions.rs"]
mod regressions;

use natmix::diagnose::weigh_draws;
use natmix::family::{Gaussian, Mixture};
use natmix::psis::smooth;
use natmix::target::{EvalOut, Points, Rows, Target};
use natmix::{Config, Method, Parts, Scratch, fit};
use natmix_models::{
    CoefficientDraws, Dataset, Inputs, Linear, Observations, Predictions, Regression, RegressionKind, loo, predict,
};
use regressions::{LOG_TAU, assert_close, table, wave, with_offset_and_weights};

/// Posterior of a linear regression with known noise, and its log evidence.
fn closed_form(table: &Observations, prior_sd: f64, noise_sd: f64, leave_out: Option<usize>) -> (Gaussian, f64) {
    let d = table.features();
    let (mut eta1, mut prec) = (vec![0.0; d], vec![0.0; d * d]);
    (0..d).for_each(|j| prec[j * (d + 1)] = prior_sd.powi(-2));
    let mut constant = -(d as f64) * (prior_sd.ln() + 0.5 * LOG_TAU);
    for row in (0..table.rows()).filter(|row| leave_out != Some(*row)) {
        let weight = table.weights().map_or(1.0, |w| w[row]);
        let y = table.outcome()[row] - table.offset().map_or(0.0, |o| o[row]);
        let x = &table.design()[row * d..(row + 1) * d];
        constant -= weight * (noise_sd.ln() + 0.5 * LOG_TAU + 0.5 * (y / noise_sd).powi(2));
        for i in 0..d {
            eta1[i] += weight * x[i] * y / noise_sd.powi(2);
            (0..d).for_each(|j| prec[i + j * d] += weight * x[i] * x[j] / noise_sd.powi(2));
        }
    }
    let halves: Vec<f64> = prec.iter().map(|x| -0.5 * x).collect();
    let posterior = Gaussian::from_natural(&eta1, &halves).unwrap();
    let quad: f64 = posterior.mean().iter().zip(&eta1).map(|(m, e)| m * e).sum();
    // log_norm is the log density at the mean.
    (posterior.clone(), constant + 0.5 * quad - posterior.log_norm())
}

#[test]
fn linear_with_known_noise_is_the_closed_form() {
    for (rows, weighted) in [(200, false), (200, true), (3, false)] {
        let kind = RegressionKind::Linear { noise_sd: Some(0.4) };
        let mut data = table(kind, rows, 4);
        if weighted {
            data = with_offset_and_weights(data);
        }
        let (posterior, evidence) = closed_form(&data, 2.5, 0.4, None);
        let model = Regression::new(kind, data, &[2.5]).unwrap();
        for method in [Method::Von, Method::ComponentDraws] {
            let config =
                Config { tolerance: 1e-9, diagnostic_draws: 500, ..Parts { rate: 1.0, ..Parts::new(method) }.into() };
            let fitted = fit(model.target(), &config).unwrap();
            let what = format!("{method:?}, {rows} rows, weighted {weighted}");
            assert_close(&fitted.mixture.mean(), posterior.mean(), 1e-6, &what);
            assert_close(&fitted.mixture.covariance(), &posterior.precision().covariance_full(), 1e-6, &what);
            let found = fitted.diagnostics.unwrap().log_evidence.mean;
            assert!((found - evidence).abs() < 1e-6, "{what}: {found} against {evidence}");
        }
    }
}

/// Weighted mean with its standard error by the delta method.
fn weighted_mean(log_weights: &[f64], x: impl Fn(usize) -> f64) -> (f64, f64) {
    let mean: f64 = log_weights.iter().enumerate().map(|(s, w)| w.exp() * x(s)).sum();
    let variance: f64 = log_weights.iter().enumerate().map(|(s, w)| (w.exp() * (x(s) - mean)).powi(2)).sum();
    (mean, variance.sqrt())
}

/// Seven points on which another system's fit collapsed to the prior. Given `sigma` the posterior is Gaussian, so all
/// moments are one-dimensional integrals, computed here by the trapezoidal rule.
#[test]
fn seven_points_with_unknown_noise() {
    let x = [1.17, 2.97, 3.26, 4.69, 5.83, 6.00, 6.41];
    let y = vec![78.93, 58.2, 67.47, 37.47, 45.65, 32.92, 29.97];
    let data = Observations::new(x.iter().flat_map(|x| [1.0, *x]).collect(), 2, y).unwrap();
    let steps = 4000;
    let grid: Vec<f64> = (0..=steps).map(|i| -3.0 + 10.0 * f64::from(i) / f64::from(steps)).collect();
    let at_each: Vec<(Gaussian, f64)> = grid
        .iter()
        .map(|s| {
            let (posterior, evidence) = closed_form(&data, 100.0, s.exp(), None);
            let prior = (2.0 / (std::f64::consts::PI * 5.0)).ln() - (1.0 + (s.exp() / 5.0).powi(2)).ln() + s;
            (posterior, evidence + prior)
        })
        .collect();
    let most = at_each.iter().fold(f64::NEG_INFINITY, |m, (_, l)| m.max(*l));
    let total: f64 = at_each.iter().map(|(_, l)| (l - most).exp()).sum();
    let log_evidence = most + (total * 10.0 / f64::from(steps)).ln();
    let expect = |f: &dyn Fn(&Gaussian, f64) -> f64| -> f64 {
        at_each.iter().zip(&grid).map(|((g, l), s)| (l - most).exp() / total * f(g, *s)).sum()
    };
    let truth = [expect(&|g, _| g.mean()[0]), expect(&|g, _| g.mean()[1]), expect(&|_, s| s)];
    let intercept_square = expect(&|g, _| g.mean()[0].powi(2) + g.sd()[0].powi(2));
    assert!((truth[1] + 9.0).abs() < 0.5 && (truth[0] - 89.0).abs() < 1.5, "{truth:?}");

    let model = Linear::new(data, &[100.0], None).unwrap();
    let fitted = fit(&model, &Config { seed: 3, ..Config::new(Method::ComponentDraws).with_components(3) }).unwrap();
    assert!(fitted.stop.converged, "{:?}", fitted.stop);
    let diagnostics = fitted.diagnostics.unwrap();
    assert!(diagnostics.verdict.trusted, "{:?}", diagnostics.verdict);
    let gap = (diagnostics.log_evidence.mean - log_evidence).abs();
    assert!(gap < 5.0 * diagnostics.log_evidence.se && diagnostics.log_evidence.se < 0.02, "{gap} {diagnostics:?}");

    let weighed = weigh_draws(&model, &fitted.mixture, 20_000, 5).unwrap();
    let names = model.parameter_names();
    for j in 0..3 {
        let (mean, se) = weighted_mean(&weighed.psis.log_weights, |s| weighed.draws[3 * s + j]);
        assert!((mean - truth[j]).abs() < 5.0 * se && se < 0.2, "{}: {mean} +- {se}, not {}", names[j], truth[j]);
    }
    let (square, se) = weighted_mean(&weighed.psis.log_weights, |s| weighed.draws[3 * s].powi(2));
    assert!((square - intercept_square).abs() < 5.0 * se, "{square} +- {se}, not {intercept_square}");
    let mut parameters = [0.0; 3];
    model.to_parameters(&[1.0, 2.0, 0.5], &mut parameters);
    assert_eq!((names[2].as_str(), parameters), ("sigma", [1.0, 2.0, 0.5f64.exp()]));
}

/// Moments of a density in one or two dimensions on a grid: mean of each coordinate, and of its square.
fn grid_moments(target: &dyn Target, centre: &[f64], half_width: f64, steps: usize) -> Vec<(f64, f64)> {
    let d = target.dim();
    let at = |i: usize| half_width * (2.0 * i as f64 / steps as f64 - 1.0);
    let points: Vec<f64> = (0..(steps + 1).pow(d as u32))
        .flat_map(|i| {
            (0..d).map(move |j| i / (steps + 1).pow(j as u32) % (steps + 1)).zip(centre).map(|(i, c)| c + at(i))
        })
        .collect();
    let mut log_p = vec![0.0; points.len() / d];
    for (points, log_p) in points.chunks(100 * d).zip(log_p.chunks_mut(100)) {
        let out = EvalOut { log_p, grad: None, curv: None };
        target.eval(Rows::All, Points::new(points, d), out, &mut Scratch::default()).unwrap();
    }
    let most = log_p.iter().fold(f64::NEG_INFINITY, |m, l| m.max(*l));
    let total: f64 = log_p.iter().map(|l| (l - most).exp()).sum();
    (0..d)
        .map(|j| {
            let mean = |power: i32| -> f64 {
                log_p.iter().enumerate().map(|(i, l)| (l - most).exp() / total * points[i * d + j].powi(power)).sum()
            };
            (mean(1), mean(2))
        })
        .collect()
}

#[test]
fn poisson_and_softmax_have_the_moments_of_quadrature() {
    let poisson = with_offset_and_weights(table(RegressionKind::Poisson, 12, 1));
    let poisson = Regression::new(RegressionKind::Poisson, poisson, &[1.5]).unwrap();
    let kind = RegressionKind::Softmax { classes: 3 };
    let softmax = Regression::new(kind, table(kind, 15, 1), &[2.0]).unwrap();
    for (model, steps) in [(poisson, 4000), (softmax, 400)] {
        let fitted = fit(model.target(), &Config { seed: 2, ..Config::new(Method::ComponentDraws) }).unwrap();
        let truth = grid_moments(model.target(), &fitted.mixture.mean(), 8.0, steps);
        let weighed = weigh_draws(model.target(), &fitted.mixture, 20_000, 7).unwrap();
        let d = model.target().dim();
        for (j, (mean, square)) in truth.into_iter().enumerate() {
            let (found, se) = weighted_mean(&weighed.psis.log_weights, |s| weighed.draws[d * s + j]);
            assert!((found - mean).abs() < 5.0 * se && se < 0.01, "{:?}: {found} +- {se}, not {mean}", model.kind());
            let (found, se) = weighted_mean(&weighed.psis.log_weights, |s| weighed.draws[d * s + j].powi(2));
            assert!((found - square).abs() < 5.0 * se, "{:?}: {found} +- {se}, not {square}", model.kind());
        }
    }
}

#[test]
fn loo_of_a_linear_regression_is_that_of_exact_refits() {
    let kind = RegressionKind::Linear { noise_sd: Some(0.8) };
    let plain = table(kind, 40, 3);
    for data in [plain.clone(), with_offset_and_weights(plain)] {
        let exactly = |row: usize, left_out: Option<usize>| {
            let posterior = closed_form(&data, 2.0, 0.8, left_out).0;
            let x = &data.design()[3 * row..3 * row + 3];
            let covariance = posterior.precision().covariance_full();
            let mean: f64 = x.iter().zip(posterior.mean()).map(|(x, m)| x * m).sum();
            let own: f64 = (0..9).map(|at| x[at % 3] * covariance[at] * x[at / 3]).sum();
            let variance = own + 0.64;
            let y = data.outcome()[row] - data.offset().map_or(0.0, |o| o[row]);
            let log_density = -0.5 * (LOG_TAU + variance.ln() + (y - mean).powi(2) / variance);
            data.weights().map_or(1.0, |w| w[row]) * log_density
        };
        let exact: Vec<f64> = (0..40).map(|row| exactly(row, Some(row))).collect();
        let p_loo = (0..40).map(|row| exactly(row, None) - exact[row]).sum::<f64>();
        let (posterior, _) = closed_form(&data, 2.0, 0.8, None);
        let model = Regression::new(kind, data, &[2.0]).unwrap();
        // A mixture that is wrong on purpose: too wide, and off centre. The base ratios correct for it.
        let mean: Vec<f64> = posterior.mean().iter().map(|m| m + 0.05).collect();
        let wide: Vec<f64> = posterior.precision().full_matrix().iter().map(|x| -0.5 * x / 1.5).collect();
        let eta1 = Gaussian::from_natural(&[0.0; 3], &wide).unwrap();
        let q = Mixture::single(Gaussian::new(mean, eta1.precision().clone()));
        let weighed = weigh_draws(model.target(), &q, 10_000, 11).unwrap();
        let found = loo::loo(&model, &weighed.draws, &weighed.log_ratios, loo::MOST_TERMS).unwrap();
        assert_eq!((found.too_large(), found.rows, found.draws), (0, 40, 10_000));
        for (row, (found, exact)) in found.pointwise.iter().zip(&exact).enumerate() {
            assert!((found - exact).abs() < 0.1, "row {row}: {found} against {exact}");
        }
        let total: f64 = exact.iter().sum();
        assert!((found.elpd - total).abs() < 0.1, "{} against {total}", found.elpd);
        let ignored = loo::loo(&model, &weighed.draws, &[0.0; 10_000], loo::MOST_TERMS).unwrap();
        assert!((ignored.elpd - total).abs() > 0.3, "{} against {total}", ignored.elpd);
        assert!((found.p_loo - p_loo).abs() < 0.1, "{} against {p_loo}", found.p_loo);

        // Sampled rows have the same contributions.
        let sampled = loo::loo(&model, &weighed.draws, &weighed.log_ratios, 100_000).unwrap();
        assert_eq!(sampled.left_out, (0..10).map(|i| 4 * i).collect::<Vec<_>>());
        let expected: Vec<f64> = sampled.left_out.iter().map(|&row| found.pointwise[row]).collect();
        assert_close(&sampled.pointwise, &expected, 1e-12, "sampled rows");
        assert!((sampled.elpd - 4.0 * expected.iter().sum::<f64>()).abs() < 1e-9);
    }
}

#[test]
fn loo_of_other_models_is_that_of_refits() {
    for kind in [RegressionKind::Logistic, RegressionKind::Poisson, RegressionKind::Softmax { classes: 3 }] {
        let rows = 20;
        let x: Vec<f64> = (0..rows).map(|r| 1.5 * wave(60 + r)).collect();
        let y: Vec<f64> =
            (0..rows).map(|r| if kind == RegressionKind::Logistic { (r % 2) as f64 } else { (r % 3) as f64 }).collect();
        let data = Observations::new(x.clone(), 1, y.clone()).unwrap();
        let model = Regression::new(kind, data.clone(), &[1.5]).unwrap();
        let fitted = fit(model.target(), &Config { seed: 1, ..Config::new(Method::ComponentDraws) }).unwrap();
        let weighed = weigh_draws(model.target(), &fitted.mixture, 40_000, 3).unwrap();
        let found = loo::loo(&model, &weighed.draws, &weighed.log_ratios, loo::MOST_TERMS).unwrap();
        assert_eq!(found.too_large(), 0);
        let mut total = 0.0;
        for row in 0..rows {
            let mut weights = vec![1.0; rows];
            weights[row] = 0.0;
            let refit = Regression::new(kind, data.clone().with_weights(weights).unwrap(), &[1.5]).unwrap();
            let fitted =
                fit(refit.target(), &Config { seed: 1, diagnostic_draws: 0, ..Config::new(Method::ComponentDraws) })
                    .unwrap();
            let refit = weigh_draws(refit.target(), &fitted.mixture, 40_000, 100 + row as u64).unwrap();
            let draws = CoefficientDraws::new(kind, 1, &refit.draws).unwrap();
            let log_lik = draws.log_likelihood(Inputs::new(&x[row..=row], 1, None).unwrap(), &y[row..=row]).unwrap();
            let (mean, se) = weighted_mean(&refit.psis.log_weights, |s| log_lik[s].exp());
            let gap = (found.pointwise[row] - mean.ln()).abs();
            assert!(
                gap < 0.03 + 5.0 * se / mean,
                "{kind:?}, row {row}: {} against {}",
                found.pointwise[row],
                mean.ln()
            );
            total += mean.ln();
        }
        // Monte Carlo errors of both sides are below 0.01 with 40,000 draws.
        assert!((found.elpd - total).abs() < 0.03, "{kind:?}: {} against {total}", found.elpd);

        // The log-likelihood matrix gives the same result.
        let draws = CoefficientDraws::new(kind, 1, &weighed.draws).unwrap();
        let Dataset::Memory(table) = model.data() else { panic!("the table is in memory") };
        let matrix = draws.log_likelihood(table.into(), table.outcome()).unwrap();
        let again = loo::from_matrix(&matrix, &weighed.log_ratios).unwrap();
        assert_close(&again.pointwise, &found.pointwise, 1e-12, "from the matrix");
        assert_eq!(smooth(&weighed.log_ratios).k_hat, weighed.psis.k_hat);
    }
}

#[test]
fn predictions_are_those_of_the_closed_form() {
    let kind = RegressionKind::Linear { noise_sd: Some(0.8) };
    let data = table(kind, 40, 3);
    let (posterior, _) = closed_form(&data, 2.0, 0.8, None);
    let draws = CoefficientDraws::new(kind, 3, &Mixture::single(posterior.clone()).sample(20_000, 1)).unwrap();
    let rows: Vec<f64> = (0..30).map(|i| 2.0 * wave(800 + i)).collect();
    let offset: Vec<f64> = (0..10).map(|i| wave(70 + i)).collect();
    let found = predict(&draws, Inputs::new(&rows, 3, Some(&offset)).unwrap()).unwrap();
    let Predictions::Real { mean, sd, q05, q50, q95 } = found else { panic!() };
    let covariance = posterior.precision().covariance_full();
    for (row, x) in rows.chunks_exact(3).enumerate() {
        let centre = offset[row] + x.iter().zip(posterior.mean()).map(|(x, m)| x * m).sum::<f64>();
        let own: f64 = (0..9).map(|at| x[at % 3] * covariance[at] * x[at / 3]).sum();
        let spread = (own + 0.64).sqrt();
        // The standard error of 20,000 draws is 0.007 standard deviations; five of them.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 0.035 * spread, "row {row}: {a} against {b}");
        close(mean[row], centre);
        close(sd[row], spread);
        close(q50[row], centre);
        close(q05[row], centre - 1.644_853_626_951 * spread);
        close(q95[row], centre + 1.644_853_626_951 * spread);
    }
}
