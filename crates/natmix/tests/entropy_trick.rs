//! The entropy trick: unbiased for every coefficient, without noise for one component, fitted where that pays.

mod common;

use common::{assert_mean, gaussian, mixture};
use natmix::draws::Plan;
use natmix::estimate::{Estimator, Trick, moments_from};
use natmix::family::{Gaussian, Mixture};
use natmix::observe::Trace;
use natmix::rule::{Rule, WeightRule};
use natmix::target::ClosureTarget;
use natmix::{Config, Fit, Method};

/// `log p = 0` everywhere: what is left of b is the entropy.
fn flat(d: usize) -> ClosureTarget<'static> {
    let value = |_: &[f64], grad: Option<&mut [f64]>| {
        if let Some(grad) = grad {
            grad.fill(0.0);
        }
        0.0
    };
    ClosureTarget::new(d, value).unwrap()
}

/// Trace of a run that does not move: the same mixture estimated again and again.
fn frozen(target: &dyn natmix::target::Target, q: &Mixture, trick: Trick, iterations: u64) -> Vec<f64> {
    let mut trace = Trace::default();
    let config = Config {
        components: q.len(),
        draws: Plan::Independent,
        draws_per_component: 40,
        entropy_trick: trick,
        rule: Rule::Plain,
        rate: 1e-14,
        weight_rule: WeightRule::Fixed,
        tolerance: 1e-300,
        max_iterations: iterations,
        diagnostic_draws: 0,
        threads: 1,
        ..Config::new(Method::ComponentDraws)
    };
    Fit::new(target, config).start(q.clone()).observe(&mut trace).run().unwrap();
    trace.0.iter().map(|row| row.elbo).collect()
}

fn variance(samples: &[f64]) -> f64 {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (samples.len() - 1) as f64
}

#[test]
fn one_component_has_an_exact_entropy() {
    for d in [1, 4, 40] {
        let component = gaussian(d, 2.0, d);
        let q = Mixture::single(component.clone());
        for seed in 0..5 {
            assert_eq!(q.entropy(3, seed), (component.entropy(), 0.0));
        }
        let elbos = frozen(&flat(d), &q, Trick::On, 50);
        let worst = elbos.iter().fold(0.0_f64, |worst, x| worst.max((x - component.entropy()).abs()));
        assert!(worst < 1e-12 * (1.0 + component.entropy().abs()), "d = {d}: {worst:e}");
        assert!(variance(&frozen(&flat(d), &q, Trick::Off, 50)) > 1e-3);
    }
    // Components that do not overlap: the entropy of the mixture is known up to the smallest of numbers.
    let far = [-1e3, 1e3].map(|m| Gaussian::isotropic(vec![m; 3], 1.0));
    let q = Mixture::new(&[0.25, 0.75], far.to_vec()).unwrap();
    let exact = far[0].entropy() - 0.25 * 0.25f64.ln() - 0.75 * 0.75f64.ln();
    let (entropy, se) = q.entropy(10, 0);
    assert!((entropy - exact).abs() < 1e-12 && se < 1e-12, "{entropy} {se} {exact}");
}

#[test]
fn every_coefficient_is_unbiased() {
    // Truth by quadrature in one dimension.
    let q = mixture(1, 2, 1.5, 3);
    let nodes: Vec<f64> = (-40_000..40_000).map(|i| f64::from(i) * 5e-4).collect();
    let log_q = q.log_density(&nodes);
    let entropy: f64 = log_q.iter().map(|l| -l.exp() * l * 5e-4).sum();
    for trick in [Trick::On, Trick::Off, Trick::Fitted] {
        assert_mean(&frozen(&flat(1), &q, trick, 4_000), entropy, 0.02, &format!("{trick:?}"));
    }
}

#[test]
fn gradients_and_stein_curvature_are_unbiased_too() {
    let (d, k) = (2, 1);
    let q = mixture(d, 2, 1.0, 9);
    let target = mixture(d, 3, 2.0, 4);
    let component = Mixture::single(q.components()[k].clone());
    let n = 16;
    let draw = |seed: u64| component.sample(n, seed);
    let weights = vec![1.0 / n as f64; n];
    // A large sample with exact curvature is the reference; each coefficient must agree with it.
    let many = component.sample(400_000, 12_345);
    let reference =
        moments_from(&target, &q, k, &many, &vec![1.0 / 400_000.0; 400_000], Estimator::Exact, 0.0).unwrap();
    for trick in [0.0, 1.0, 0.37] {
        let estimates: Vec<_> = (0..3_000)
            .map(|seed| moments_from(&target, &q, k, &draw(seed), &weights, Estimator::Stein, trick).unwrap())
            .collect();
        let column = |f: &dyn Fn(&natmix::estimate::Moments) -> f64| estimates.iter().map(f).collect::<Vec<f64>>();
        assert_mean(&column(&|m| m.value), reference.value, 0.05, "value");
        for i in 0..d {
            assert_mean(&column(&|m| m.grad[i]), reference.grad[i], 0.08, "gradient");
        }
        for i in 0..d * d {
            assert_mean(&column(&|m| m.hess[i]), reference.hess[i], 0.2, "curvature");
        }
    }
}

#[test]
fn a_fitted_coefficient_is_never_much_worse_than_the_better_choice() {
    for (target, q) in [
        // Far from the target, and at it.
        (mixture(2, 2, 4.0, 1), mixture(2, 2, 1.0, 2)),
        (mixture(2, 2, 1.0, 2), mixture(2, 2, 1.0, 2)),
        (mixture(3, 1, 0.5, 5), mixture(3, 2, 1.0, 6)),
    ] {
        let [on, off, fitted] =
            [Trick::On, Trick::Off, Trick::Fitted].map(|trick| variance(&frozen(&target, &q, trick, 1_000)[1..]));
        assert!(fitted <= 1.3 * on.min(off) + 1e-20, "on {on}, off {off}, fitted {fitted}");
    }
    // Where q = p only the coefficient zero has no noise: the fit must find it.
    let q = mixture(2, 2, 1.0, 2);
    assert!(variance(&frozen(&q, &q, Trick::Fitted, 100)[1..]) < 1e-20);
    assert!(variance(&frozen(&q, &q, Trick::On, 100)) > 1e-3);
}

#[test]
fn whole_frames_of_cubature_leave_the_trick_nothing_to_do() {
    let (d, k) = (3, 1);
    let (target, q) = (mixture(d, 2, 2.0, 1), mixture(d, 2, 1.0, 2));
    // One frame along the axes of the whitened space, at the radius that makes quadratics exact.
    let component = &q.components()[k];
    let factor = component.precision().factor();
    let points: Vec<f64> = (0..2 * d)
        .flat_map(|i| {
            let mut z = vec![0.0; d];
            z[i / 2] = if i % 2 == 0 { 3f64.sqrt() } else { -3f64.sqrt() };
            // z = m + L^-T eps by back substitution.
            for j in (0..d).rev() {
                let rest: f64 = (j + 1..d).map(|l| factor[l + j * d] * z[l]).sum();
                z[j] = (z[j] - rest) / factor[j + j * d];
            }
            z.iter().zip(component.mean()).map(|(z, m)| z + m).collect::<Vec<f64>>()
        })
        .collect();
    let weights = vec![1.0 / (2 * d) as f64; 2 * d];
    let [off, on] =
        [0.0, 1.0].map(|trick| moments_from(&target, &q, k, &points, &weights, Estimator::Stein, trick).unwrap());
    assert!((off.value - on.value).abs() < 1e-12);
    assert!(common::distance(&off.grad, &on.grad) < 1e-12);
    assert!(common::distance(&off.hess, &on.hess) < 1e-12);
    // Half a frame is another matter.
    let [off, on] = [0.0, 1.0]
        .map(|trick| moments_from(&target, &q, k, &points[..2 * d], &[0.5; 2], Estimator::Stein, trick).unwrap());
    assert!(common::distance(&off.hess, &on.hess) > 1e-3);
}

#[test]
fn mixture_draws_are_unbiased_with_the_trick() {
    // E_k[b] moves the weights: with a flat target the weights of one plain step tell it.
    let q = mixture(1, 2, 1.5, 3);
    let nodes: Vec<f64> = (-40_000..40_000).map(|i| f64::from(i) * 5e-4).collect();
    let log_q = q.log_density(&nodes);
    let expected: Vec<f64> = (0..2)
        .map(|k| {
            let own = Mixture::single(q.components()[k].clone()).log_density(&nodes);
            own.iter().zip(&log_q).map(|(own, log_q)| -own.exp() * log_q * 5e-4).sum()
        })
        .collect();
    let target = flat(1);
    for entropy_trick in [Trick::On, Trick::Off] {
        let gaps: Vec<f64> = (0..6_000)
            .map(|seed| {
                let config = Config {
                    components: 2,
                    draws: Plan::Independent,
                    draws_per_component: 4,
                    entropy_trick,
                    rate: 1e-14,
                    weight_rule: WeightRule::Plain,
                    weight_rate: 1.0,
                    tolerance: 1e-300,
                    max_iterations: 1,
                    diagnostic_draws: 0,
                    threads: 1,
                    seed,
                    ..Config::new(Method::MixtureDraws)
                };
                let fitted = Fit::new(&target, config).start(q.clone()).run().unwrap();
                let (new, old) = (fitted.state.mixture().log_weights(), q.log_weights());
                (new[0] - new[1]) - (old[0] - old[1])
            })
            .collect();
        assert_mean(&gaps, expected[0] - expected[1], 0.12, &format!("{entropy_trick:?}"));
    }
}
