//! A posterior with three modes, found and drawn in the terminal.
//!
//! `cargo run --release --example mixture_fit`

use natmix::family::{Covariances, Mixture};
use natmix::{Config, Fit, Method};

fn main() -> Result<(), natmix::Error> {
    let target = Mixture::from_moments(
        &[0.5, 0.3, 0.2],
        &[vec![-3.0, -1.0], vec![2.0, 2.0], vec![3.0, -2.5]],
        Covariances::Full(&[
            vec![vec![1.0, 0.7], vec![0.7, 1.0]],
            vec![vec![1.5, -0.6], vec![-0.6, 0.5]],
            vec![vec![0.3, 0.0], vec![0.0, 0.6]],
        ]),
    )?;
    let config = Config {
        init_sd: vec![3.0],
        seed: 4,
        tolerance: 1e-3,
        ..Config::new(Method::ComponentDraws).with_components(8)
    };
    let fitted = Fit::new(&target, config).run()?;

    println!("log density of the fit, darker is denser; digits mark component means\n");
    draw(&fitted.mixture);
    println!("\n{:>10} {:>9} {:>9}", "weight", "mean", "");
    for (weight, component) in fitted.mixture.weights().iter().zip(fitted.mixture.components()) {
        println!("{weight:>10.4} {:>9.3} {:>9.3}", component.mean()[0], component.mean()[1]);
    }
    if let Some(diagnostics) = &fitted.diagnostics {
        let (elbo, evidence) = (diagnostics.elbo, diagnostics.log_evidence);
        println!(
            "\nELBO {:.4} +- {:.4}, log evidence {:.4} +- {:.4} (truth 0)",
            elbo.mean, elbo.se, evidence.mean, evidence.se
        );
        println!(
            "k-hat {:.2}, effective sample size {:.0} of {}",
            diagnostics.k_hat, diagnostics.ess, diagnostics.draws
        );
        println!("trust it: {}", if diagnostics.verdict.trusted { "yes" } else { "no" });
        diagnostics.verdict.reasons.iter().for_each(|reason| println!("  {reason}"));
    }
    println!("{} iterations, {} evaluations, {:.3} seconds", fitted.iterations, fitted.evals, fitted.seconds);
    Ok(())
}

fn draw(q: &Mixture) {
    let (width, height) = (72, 26);
    let at = |column: usize, row: usize| {
        [-7.0 + 14.0 * (column as f64 + 0.5) / width as f64, 5.0 - 10.0 * (row as f64 + 0.5) / height as f64]
    };
    for row in 0..height {
        let line: String = (0..width)
            .map(|column| {
                let z = at(column, row);
                let near = |mean: &[f64]| {
                    (mean[0] - z[0]).abs() < 7.0 / width as f64 && (mean[1] - z[1]).abs() < 5.0 / height as f64
                };
                let heavy = |k: &usize| q.weights()[*k] > 0.01 && near(q.components()[*k].mean());
                match (0..q.len()).find(heavy) {
                    Some(k) => char::from_digit(k as u32 % 10, 10).unwrap_or('*'),
                    None => shade(q.log_density(&z)[0]),
                }
            })
            .collect();
        println!("  {line}");
    }
}

fn shade(log_density: f64) -> char {
    let shades = [' ', '.', ':', '-', '=', '+', '%', '#'];
    let level = ((log_density + 9.5) / 1.1).clamp(0.0, 7.0);
    shades[level as usize]
}
