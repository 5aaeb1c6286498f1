//! Text forms, densities and draws of the priors.

use super::*;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;

const ALL: [&str; 11] = [
    "normal(-1, 2)",
    "student_t(3, 0.5, 2.5)",
    "cauchy(1, 0.5)",
    "laplace(0.3, 2)",
    "logistic(-0.5, 0.7)",
    "half_normal(1.5)",
    "half_cauchy(0.7)",
    "exponential(2)",
    "gamma(2.5, 0.7)",
    "inverse_gamma(2.5, 0.8)",
    "lognormal(0.4, 0.6)",
];

fn all() -> impl Iterator<Item = PriorDensity> {
    ALL.iter().map(|text| text.parse().unwrap())
}

#[test]
fn text_forms_are_read_and_written() {
    for text in ALL {
        assert_eq!(text.parse::<PriorDensity>().unwrap().to_string(), text);
    }
    assert_eq!(" Normal ( 0 ,1e1 ) ".parse::<PriorDensity>().unwrap(), PriorDensity::Normal { mean: 0.0, sd: 10.0 });
    let message = |text: &str| text.parse::<PriorDensity>().unwrap_err().to_string();
    for (text, expected) in [
        ("normal", "such as normal(0, 2.5)"),
        ("norm(0, 1)", "there is no distribution `norm`"),
        ("normal(0)", "expected normal(mean, sd), not 1 numbers"),
        ("normal(0, x)", "`x` is not a number"),
        ("normal(0, 0)", "sd is 0"),
        ("normal(inf, 1)", "mean is inf"),
        ("half_normal(-1)", "scale is -1"),
        ("gamma(nan, 1)", "shape is NaN"),
        ("lkj()", "`` is not a number"),
    ] {
        assert!(message(text).contains(expected), "{}", message(text));
    }
    let wrong = PriorDensity::Normal { mean: 0.0, sd: 1.0 }.check_for("sd(school)", Support::Positive);
    let message = wrong.unwrap_err().to_string();
    assert!(message.contains("sd(school) needs one of positive numbers (try half_normal"), "{message}");
}

#[test]
fn densities_integrate_to_one_and_have_their_derivatives() {
    for prior in all() {
        let positive = prior.support() == Support::Positive;
        // In log x, or in sinh, so that heavy tails are covered.
        let total: f64 = (-6000..6000)
            .map(|i| {
                let t = (f64::from(i) + 0.5) * 5e-3;
                let log = if positive { prior.at_log(t)[0] } else { prior.at(t.sinh())[0] + t.cosh().ln() };
                5e-3 * log.exp()
            })
            .sum();
        assert!((total - 1.0).abs() < 1e-4, "{prior}: {total}");
        for x in [0.05, 0.4, 1.7, 6.0] {
            let h = 1e-4 * x;
            let check = |at: &dyn Fn(f64) -> [f64; 3], x: f64| {
                let (up, down, [_, slope, curv]) = (at(x + h), at(x - h), at(x));
                let gaps = [(up[0] - down[0]) / (2.0 * h) - slope, (up[1] - down[1]) / (2.0 * h) - curv];
                let size = slope.abs().max(curv.abs()).max(1.0);
                assert!(gaps.iter().all(|gap| gap.abs() < 1e-6 * size), "{prior} at {x}: {gaps:?}");
            };
            check(&|x| prior.at(x), x);
            if positive {
                check(&|t| prior.at_log(t), x.ln());
                assert!((prior.at_log(x.ln())[0] - prior.at(x)[0] - x.ln()).abs() < 1e-12, "{prior}");
            } else {
                check(&|x| prior.at(x), -x);
            }
            let (factor, shift) = (3.0, if positive { 0.0 } else { -2.0 });
            let other = prior.rescaled(factor, shift);
            let gap = other.at(factor * x + shift)[0] + factor.ln() - prior.at(x)[0];
            assert!(gap.abs() < 1e-12, "{prior} {other}");
        }
    }
}

#[test]
fn draws_have_the_distribution() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for prior in all() {
        let draws: Vec<f64> = (0..20_000).map(|_| prior.draw(&mut rng)).collect();
        let positive = prior.support() == Support::Positive;
        for edge in [0.2, 0.7, 1.5, 4.0] {
            let mut below = 0.0;
            for i in 0..200_000 {
                let t = (f64::from(i) - 100_000.0 + 0.5) * 3e-4;
                let (x, log) = if positive {
                    (t.exp(), prior.at_log(t)[0])
                } else {
                    (t.sinh(), prior.at(t.sinh())[0] + t.cosh().ln())
                };
                below += if x < edge { 3e-4 * log.exp() } else { 0.0 };
            }
            let found = draws.iter().filter(|x| **x < edge).count() as f64 / draws.len() as f64;
            let se = (below * (1.0 - below) / draws.len() as f64).sqrt();
            assert!((found - below).abs() < 5.0 * se + 1e-3, "{prior} below {edge}: {found}, not {below}");
        }
    }
}
