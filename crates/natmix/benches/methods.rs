//! What each method needs to reach a known answer: evaluations and seconds, every seed shown.
//!
//! `cargo bench --bench methods`, or with `-- --quick` for fewer seeds. Three tables: conjugate regression (d = 20, N
//! = 200) to `KL < 0.01` of the best Gaussian; three separate modes to `KL < 0.001`; the precision of VOGN against
//! the number of rows.

#[path = "../tests/common/regression.rs"]
mod regression;
#[path = "../tests/common/three_modes.rs"]
mod three_modes;

use natmix::draws::Plan;
use natmix::estimate::Trick;
use natmix::family::CovarianceKind;
use natmix::rule::Rule;
use natmix::{Config, Fit, Method, Parts};
use regression::{ConjugateRegression, DIM, settings};

/// Nats from the best Gaussian at which a regression run is done.
const GOAL: f64 = 0.01;
/// Evaluations after which a regression run is given up.
const MOST_EVALS: u64 = 1_500_000;

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    conjugate(if quick { 1 } else { 5 });
    independent(if quick { 3 } else { 10 });
    modes(if quick { 3 } else { 10 });
    vogn_precision();
}

/// The median; runs that never reached the goal count as the longest.
fn median<T: Copy + PartialOrd>(runs: &[Option<T>]) -> Option<T> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| match (a, b) {
        (Some(a), Some(b)) => a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    sorted[sorted.len() / 2]
}

fn shown(evals: Option<u64>) -> String {
    evals.map_or("never".to_owned(), |evals| evals.to_string())
}

fn print_row(label: &str, runs: &[Option<(u64, f64)>]) {
    let evals: Vec<Option<u64>> = runs.iter().map(|run| run.map(|run| run.0)).collect();
    let seconds: Vec<Option<f64>> = runs.iter().map(|run| run.map(|run| run.1)).collect();
    let seconds = median(&seconds).map_or("-".to_owned(), |seconds| format!("{seconds:.4}"));
    let all: Vec<String> = evals.iter().copied().map(shown).collect();
    println!("{label:<28} {:>9} {seconds:>9}   {}", shown(median(&evals)), all.join(" "));
}

fn heading(title: &str, first: &str) {
    println!("\n{title}\n{first:<28} {:>9} {:>9}   evaluations of each seed", "median", "seconds");
}

fn run(regression: &ConjugateRegression, config: Config, seeds: u64) -> Vec<Option<(u64, f64)>> {
    let runs = (0..seeds).map(|seed| {
        let config = Config {
            seed,
            diagnostic_draws: 0,
            max_iterations: u64::MAX,
            max_evals: config.max_evals.or(Some(MOST_EVALS)),
            ..config.clone()
        };
        regression.run_to_goal(config, GOAL)
    });
    runs.collect()
}

fn conjugate(seeds: u64) {
    heading("Conjugate regression, d = 20, N = 200: evaluations to KL < 0.01", "method, covariance");
    let regression = ConjugateRegression::new(200);
    for shape in [CovarianceKind::Full, CovarianceKind::Diag] {
        for method in [Method::Bbvi, Method::Ngvi, Method::Von, Method::MixtureDraws, Method::ComponentDraws] {
            let runs = run(&regression, settings(method, shape, 0), seeds);
            print_row(&format!("{}, {}", method.name(), shape.name()), &runs);
        }
    }
}

/// Without cubature, on which a Gaussian target is exact and NGVI becomes VON: what gradients and Hessians are worth.
fn independent(seeds: u64) {
    heading("The same with independent draws, no entropy trick", "method, covariance, draws, rate");
    let regression = ConjugateRegression::new(200);
    for (method, shape, draws, rate) in [
        (Method::Ngvi, CovarianceKind::Full, 200, 0.05),
        (Method::Von, CovarianceKind::Full, 200, 0.05),
        (Method::Von, CovarianceKind::Full, 20, 0.3),
        (Method::Ngvi, CovarianceKind::Diag, 20, 0.05),
        (Method::Von, CovarianceKind::Diag, 20, 0.05),
        (Method::Von, CovarianceKind::Diag, 20, 0.1),
    ] {
        let config = Config {
            max_evals: Some(200_000),
            ..settings(method, shape, 0).with_parts(|parts| Parts {
                draws: Plan::Independent,
                draws_per_component: draws,
                entropy_trick: Trick::Off,
                rate,
                ..parts
            })
        };
        print_row(&format!("{}, {}, {draws}, {rate}", method.name(), shape.name()), &run(&regression, config, seeds));
    }
}

fn modes(seeds: u64) {
    let title = "Three modes of weights 0.9, 0.08, 0.02, d = 2: evaluations to KL < 0.001";
    println!("\n{title}\n{:<46} {:>7}   each seed", "draws, rule, points per component, source", "median");
    for (plan, rule, draws) in [
        (Plan::Cubature, Rule::Improved, 10),
        (Plan::Cubature, Rule::Improved, 30),
        (Plan::Cubature, Rule::TrustRegion, 30),
        (Plan::Independent, Rule::Improved, 10),
        (Plan::Independent, Rule::Improved, 30),
    ] {
        for method in [Method::ComponentDraws, Method::MixtureDraws] {
            let config = |seed| {
                three_modes::config(method, seed).with_parts(|parts| Parts {
                    draws: plan,
                    rule,
                    draws_per_component: draws,
                    ..parts
                })
            };
            let runs: Vec<Option<u64>> = (0..seeds).map(|seed| three_modes::run_to_goal(config(seed)).0).collect();
            let label = format!("{}, {}, {draws}, {}", plan.name(), rule.name(), method.name());
            let all: Vec<String> = runs.iter().copied().map(shown).collect();
            println!("{label:<46} {:>7}   {}", shown(median(&runs)), all.join(" "));
        }
    }
}

fn vogn_precision() {
    println!("\nVOGN, squared per-example gradients: relative error of the precision's diagonal");
    println!("{:>6} {:>8} {:>8} {:>10}", "N", "rms", "largest", "sqrt(6/N)");
    for rows in [50, 200, 1000, 5000] {
        let regression = ConjugateRegression::new(rows);
        let config = Config {
            max_iterations: 500,
            tolerance: 1e-9,
            diagnostic_draws: 0,
            ..Parts { draws_per_component: 2 * DIM, ..Parts::new(Method::Vogn) }.into()
        };
        let fitted = Fit::new(&regression.target, config).run().unwrap();
        let errors = regression.diagonal_errors(&fitted.mixture.components()[0].precision().matrix());
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / DIM as f64).sqrt();
        let largest = errors.iter().fold(0.0, |worst: f64, e| worst.max(e.abs()));
        println!("{rows:>6} {rms:>8.3} {largest:>8.3} {:>10.3}", (6.0 / rows as f64).sqrt());
    }
}
