//! The entropy trick: unbiased for every coefficient, without noise for one component, fitted where that pays.

mod common;

use common::{assert_mean, gaussian, mixture};
use natmix::draws::Plan;
use natmix::estimate::{Estimator, Trick, moments_from};
use natmix::family::{Gaussian, Mixture};
use natmix::observe::Trace;
use natmix::rule::{Rule, WeightRule};
use natmix::targets::ClosureTarget;
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
fn cubature_leaves_the_trick_nothing_to_do() {
    let (target, q) = (mixture(3, 2, 2.0, 1), mixture(3, 2, 1.0, 2));
    let run = |entropy_trick| {
        let config = Config {
            components: 2,
            entropy_trick,
            draws: Plan::Cubature,
            tolerance: 1e-300,
            max_iterations: 10,
            diagnostic_draws: 0,
            ..Config::new(Method::ComponentDraws)
        };
        Fit::new(&target, config).start(q.clone()).run().unwrap().mixture
    };
    assert_eq!(run(Trick::On), run(Trick::Off));
}
