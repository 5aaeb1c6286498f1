//! Settings and starts that are invalid or do not fit the target: each is refused by name.

use natmix::config::StrategyConfig;
use natmix::family::{AnyCovariance, CovarianceKind, Diag, Full, Gaussian, Mixture};
use natmix::rule::Rule;
use natmix::target::{ClosureTarget, Target};
use natmix::{Config, Error, Fit, Method, Parts, fit};
use natmix_models::glm::{Glm, Likelihood};

fn unsupported(target: &dyn Target, config: Config) -> String {
    match fit(target, &config) {
        Err(error @ Error::Unsupported { .. }) => error.to_string(),
        other => panic!("{}: {other:?}", config.method().name()),
    }
}

#[test]
fn what_a_target_lacks_is_named() {
    let values = ClosureTarget::density_only(2, |z| -0.5 * (z[0] * z[0] + z[1] * z[1])).unwrap();
    for (method, ..) in Method::ALL.iter().filter(|entry| entry.0 != Method::Bbvi) {
        let message = unsupported(&values, Config::new(*method));
        assert!(
            message.contains("gradients") && message.contains("values only") && message.contains("bbvi"),
            "{message}"
        );
    }
    let quick = Config { max_iterations: 3, ..Config::new(Method::Bbvi) };
    assert!(fit(&values, &quick).is_ok());

    let gradients = ClosureTarget::new(2, |z, grad| {
        if let Some(grad) = grad {
            grad.iter_mut().zip(z).for_each(|(g, z)| *g = -z);
        }
        -0.5 * (z[0] * z[0] + z[1] * z[1])
    });
    let gradients = gradients.unwrap();
    let message = unsupported(&gradients, Config::new(Method::Von));
    assert!(
        message.contains("exact (full)") && message.contains("no curvature") && message.contains("ngvi"),
        "{message}"
    );
    let message = unsupported(&gradients, Config::new(Method::Vogn));
    assert!(message.contains("empirical-fisher (diag)") && message.contains("ngvi"), "{message}");

    // If a target offers something else, the message says what.
    let with_hessian = gradients.with_hessian(|_, hess| hess.copy_from_slice(&[-1.0, 0.0, 0.0, -1.0]));
    let message = unsupported(&with_hessian, Config::new(Method::Vogn));
    assert!(message.contains("offers exact (diag), exact (full)"), "{message}");
    let message = unsupported(&with_hessian, Config::from(Parts { minibatch: Some(5), ..Parts::new(Method::Ngvi) }));
    assert!(message.contains("data rows") && message.contains("none"), "{message}");
}

fn setting_of(target: &dyn Target, config: Config) -> (&'static str, String) {
    match fit(target, &config) {
        Err(Error::Config { setting, problem }) => (setting, problem),
        other => panic!("{other:?}"),
    }
}

fn part(config: &mut Config, change: impl FnOnce(&mut Parts)) {
    if let StrategyConfig::Parts(parts) = &mut config.strategy {
        change(parts);
    }
}

#[test]
fn every_invalid_setting_is_named() {
    type Change = fn(&mut Config, f64);
    let positive: [(&str, Change); 8] = [
        ("rate", |c, x| part(c, |parts| parts.rate = x)),
        ("step_cap", |c, x| part(c, |parts| parts.step_cap = x)),
        ("trust_region", |c, x| part(c, |parts| parts.trust_region = x)),
        ("weight_rate", |c, x| part(c, |parts| parts.weight_rate = x)),
        ("weight_trust_region", |c, x| part(c, |parts| parts.weight_trust_region = x)),
        ("tolerance", |c, x| c.tolerance = x),
        ("max_seconds", |c, x| c.max_seconds = Some(x)),
        ("init_sd", |c, x| c.init_sd = vec![1.0, x]),
    ];
    let target = Mixture::single(Gaussian::isotropic(vec![0.0, 0.0], 1.0));
    let check = |setting: &str, config: Config| {
        let (named, problem) = setting_of(&target, config);
        assert_eq!(named, setting, "{problem}");
        assert!(!problem.is_empty());
    };
    for (setting, change) in positive {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut config = Config::new(Method::ComponentDraws);
            change(&mut config, bad);
            check(setting, config);
        }
    }
    for bad in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        check("momentum", Config::from(Parts { momentum: bad, ..Parts::new(Method::ComponentDraws) }));
        check("decay", Config::from(Parts { decay: bad, ..Parts::new(Method::ComponentDraws) }));
    }
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        check("damping", Config::from(Parts { damping: bad, ..Parts::new(Method::ComponentDraws) }));
        check(
            "init_mean",
            Config {
                init_mean: vec![if bad < 0.0 { f64::NEG_INFINITY } else { bad }],
                ..Config::new(Method::ComponentDraws)
            },
        );
    }
    for bad in [0.0, 1.5, f64::NAN] {
        check("curvature_rate", Config::from(Parts { curvature_rate: Some(bad), ..Parts::new(Method::Vogn) }));
    }
    check("rate", Config::from(Parts { rate: 1e4, ..Parts::new(Method::ComponentDraws) }));
    check("components", Config::new(Method::ComponentDraws).with_components(0));
    check("draws_per_component", Config::from(Parts { draws_per_component: 0, ..Parts::new(Method::ComponentDraws) }));
    check("draws_per_component", Config::from(Parts { draws_per_component: 1, ..Parts::new(Method::Bbvi) }));
    check("minibatch", Config::from(Parts { minibatch: Some(0), ..Parts::new(Method::ComponentDraws) }));
    check("max_iterations", Config { max_iterations: 0, ..Config::new(Method::ComponentDraws) });
    check("max_evals", Config { max_evals: Some(0), ..Config::new(Method::ComponentDraws) });
    check("init_mean", Config { init_mean: vec![], ..Config::new(Method::ComponentDraws) });
    check("init_sd", Config { init_sd: vec![], ..Config::new(Method::ComponentDraws) });
    // Squares that over- or underflow would give a precision of zero or infinity.
    check("init_sd", Config { init_sd: vec![1e-200], ..Config::new(Method::ComponentDraws) });
    check("init_sd", Config { init_sd: vec![1e200], ..Config::new(Method::ComponentDraws) });
    // Settings that do not go together.
    check("rule", Config::from(Parts { rule: Rule::Adam, ..Parts::new(Method::ComponentDraws) }));
    check("rule", Config::from(Parts { rule: Rule::Plain, ..Parts::new(Method::Bbvi) }));
    check("rule", Config { covariance: CovarianceKind::Full, ..Config::new(Method::Vogn) });
    check("source", Config::from(Parts { source: natmix::Source::Component, ..Parts::new(Method::Bbvi) }));
    // Lengths that do not fit the target: 1 and 2 do.
    for list in [vec![0.5; 1], vec![0.5; 2]] {
        let config =
            Config { init_mean: list.clone(), init_sd: list, max_iterations: 1, ..Config::new(Method::ComponentDraws) };
        assert!(fit(&target, &config).is_ok());
    }
    for (setting, config) in [
        ("init_mean", Config { init_mean: vec![0.0; 3], ..Config::new(Method::ComponentDraws) }),
        ("init_sd", Config { init_sd: vec![1.0; 3], ..Config::new(Method::ComponentDraws) }),
    ] {
        let (named, problem) = setting_of(&target, config);
        assert_eq!(named, setting);
        assert!(problem.contains("3 numbers") && problem.contains("dimension 2"), "{problem}");
    }
    let message = "gradient-descent".parse::<Method>().unwrap_err().to_string();
    assert!(message.contains("gradient-descent") && message.contains("component-draws"), "{message}");
}

#[test]
fn minibatches_larger_than_the_data_are_named() {
    let model = Glm::new(Likelihood::Bernoulli, &[1.0, -1.0, 0.5], 1, vec![1.0, 0.0, 1.0], &[1.0]).unwrap();
    let (setting, problem) = setting_of(&model, Config::from(Parts { minibatch: Some(4), ..Parts::new(Method::Vogn) }));
    assert_eq!(setting, "minibatch");
    assert!(problem.contains('4') && problem.contains('3'), "{problem}");
    for rows in 1..=3 {
        let config = Config { max_iterations: 7, ..Parts { minibatch: Some(rows), ..Parts::new(Method::Vogn) }.into() };
        assert_eq!(fit(&model, &config).unwrap().iterations, 7);
    }
}

#[test]
fn a_start_that_does_not_fit_is_refused() {
    let target = Mixture::single(Gaussian::isotropic(vec![0.0, 0.0], 1.0));
    let config = Config {
        covariance: CovarianceKind::Diag,
        max_iterations: 2,
        ..Config::new(Method::ComponentDraws).with_components(2)
    };
    let start = |dim: usize, components: usize, shape: CovarianceKind| {
        let prec = match shape {
            CovarianceKind::LowRank => unreachable!("has tests of its own"),
            CovarianceKind::Diag => AnyCovariance::from(Diag::new(vec![1.0; dim]).unwrap()),
            CovarianceKind::Full => {
                let eye = (0..dim * dim).map(|at| f64::from(u8::from(at % (dim + 1) == 0)));
                Full::from_factor(dim, eye.collect()).into()
            }
        };
        Mixture::new(&vec![1.0; components], vec![Gaussian::new(vec![0.0; dim], prec); components]).unwrap()
    };
    let refused = |mixture: Mixture| match Fit::new(&target, config.clone()).start(mixture).run() {
        Err(Error::InvalidInput(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(refused(start(3, 2, CovarianceKind::Diag)).contains("dimension 3"));
    assert!(refused(start(2, 2, CovarianceKind::Full)).contains("full covariance"));
    assert!(refused(start(2, 1, CovarianceKind::Diag)).contains("1 components"));
    let fitted = Fit::new(&target, config.clone()).start(start(2, 2, CovarianceKind::Diag)).run().unwrap();
    let mut state = Some(fitted.state);
    let wrong = config.clone().with_components(1);
    assert!(matches!(Fit::new(&target, wrong).resume(state.take().unwrap()).run(), Err(Error::InvalidInput(_))));
}

#[test]
fn mixtures_that_are_not_finite_are_refused() {
    let target = Mixture::single(Gaussian::isotropic(vec![0.0], 1.0));
    let broken = [
        Gaussian::isotropic(vec![f64::NAN], 1.0),
        Gaussian::isotropic(vec![f64::INFINITY], 1.0),
        Gaussian::new(vec![0.0], Full::from_factor(1, vec![0.0])),
        Gaussian::new(vec![0.0], Full::from_factor(1, vec![-1.0])),
        Gaussian::new(vec![0.0], Full::from_factor(1, vec![f64::NAN])),
        Gaussian::new(vec![0.0], Full::from_factor(1, vec![1e200])),
    ];
    for component in broken {
        let config = Config { covariance: component.covariance_kind(), ..Config::new(Method::ComponentDraws) };
        assert!(matches!(Mixture::new(&[1.0], vec![component.clone()]), Err(Error::InvalidInput(_))), "{component:?}");
        let result = Fit::new(&target, config).start(Mixture::single(component.clone())).run();
        assert!(matches!(result, Err(Error::InvalidInput(_))), "{component:?}: {result:?}");
    }
}
