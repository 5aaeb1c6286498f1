//! What the entropy trick does to the noise, over separations and dimensions, under independent draws.
//!
//! Two components of unit covariance whose means lie `separation` standard deviations apart. A ratio above one says how
//! many times smaller the variance is with the trick than without. First for the entropy alone (log p = 0), then for the
//! whole residual b = log p - log q where p is near q: there the trick takes away a noise that would have cancelled.
//!
//! `cargo bench -p natmix --bench entropy_trick`

use natmix::estimate::{Estimator, Moments, moments_from};
use natmix::family::{Full, Gaussian, Mixture, Precision};
use natmix::target::ClosureTarget;
use natmix::target::Target;

const DRAWS: usize = 40;
const REPEATS: u64 = 400;

fn pair(d: usize, separation: f64, stretch: f64) -> Mixture {
    let component = |at: f64| {
        let mut mean = vec![0.0; d];
        mean[0] = at;
        let mut factor = vec![0.0; d * d];
        factor.iter_mut().step_by(d + 1).for_each(|x| *x = stretch);
        Gaussian::new(mean, Precision::Full(Full::from_factor(d, factor)))
    };
    Mixture::new(&[0.4, 0.6], vec![component(-0.5 * separation), component(0.5 * separation)]).expect("a mixture")
}

/// Total variances of value, gradient and curvature of component 0.
fn variances(target: &dyn Target, q: &Mixture, trick: f64) -> [f64; 3] {
    let own = Mixture::single(q.components()[0].clone());
    let weights = vec![1.0 / DRAWS as f64; DRAWS];
    let estimates: Vec<Moments> = (0..REPEATS)
        .map(|seed| {
            let draws = own.sample(DRAWS, seed);
            moments_from(target, q, 0, &draws, &weights, Estimator::Stein, trick).expect("moments")
        })
        .collect();
    let total = |part: &dyn Fn(&Moments) -> Vec<f64>| -> f64 {
        let rows: Vec<Vec<f64>> = estimates.iter().map(part).collect();
        (0..rows[0].len())
            .map(|j| {
                let mean = rows.iter().map(|row| row[j]).sum::<f64>() / rows.len() as f64;
                rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>() / (rows.len() - 1) as f64
            })
            .sum()
    };
    [total(&|m| vec![m.value]), total(&|m| m.grad.clone()), total(&|m| m.hess.clone())]
}

fn table(title: &str, target: impl Fn(usize, f64) -> Box<dyn Target>) {
    println!("\n{title}\n{:>4} {:>11} {:>12} {:>12} {:>12}", "d", "separation", "value", "gradient", "curvature");
    for d in [1, 2, 5, 20] {
        for separation in [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0] {
            let q = pair(d, separation, 1.0);
            let target = target(d, separation);
            let (off, on) = (variances(&*target, &q, 0.0), variances(&*target, &q, 1.0));
            let ratio = |i: usize| {
                // Below rounding the estimate is exact.
                if on[i] < 1e-24 { "exact".to_owned() } else { format!("{:.3}", off[i] / on[i]) }
            };
            println!("{d:>4} {separation:>11} {:>12} {:>12} {:>12}", ratio(0), ratio(1), ratio(2));
        }
    }
}

fn main() {
    println!("Variance without the trick over variance with it; {DRAWS} independent draws, {REPEATS} repeats");
    table("Entropy alone: log p = 0", |d, _| {
        let flat = |_: &[f64], grad: Option<&mut [f64]>| {
            if let Some(grad) = grad {
                grad.fill(0.0);
            }
            0.0
        };
        Box::new(ClosureTarget::new(d, flat).expect("a target"))
    });
    table("Residual near the answer: p is q with precisions 10% higher", |d, separation| {
        Box::new(pair(d, separation, 1.1_f64.sqrt()))
    });
    table("Residual far from the answer: p is one Gaussian of twice the width, three away", |d, _| {
        let mut factor = vec![0.0; d * d];
        factor.iter_mut().step_by(d + 1).for_each(|x| *x = 0.5);
        Box::new(Mixture::single(Gaussian::new(vec![3.0; d], Precision::Full(Full::from_factor(d, factor)))))
    });
}
