//! Time of an evaluation with its gradient, in nanoseconds per row and point, on one thread: every family with an intercept, two columns
//! and a varying intercept of 1,000 levels.
//!
//! `cargo run --release -p natmix-models --example effects_speed [ROWS]`

use natmix::Scratch;
use natmix::target::{EvalOut, Points, Rows, Target};
use natmix_models::effects::{EffectsData, EffectsModel, Family, Grouping};
use std::time::Instant;

const POINTS: usize = 32;
const LEVELS: usize = 1000;

fn main() {
    let rows: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(20_000);
    for family in [
        Family::Linear,
        Family::Logistic,
        Family::Poisson,
        Family::NegativeBinomial,
        Family::Robust,
        Family::Binomial,
        Family::Ordinal { categories: 4 },
        Family::Gamma,
        Family::Survival,
    ] {
        let wave = |i: usize| (i as f64 * 1.7).sin();
        let data = EffectsData {
            y: (0..rows)
                .map(|row| match family {
                    Family::Logistic => (row % 2) as f64,
                    Family::Gamma | Family::Survival => wave(row).exp(),
                    _ => (row % 4) as f64,
                })
                .collect(),
            trials: (family == Family::Binomial).then(|| vec![5.0; rows]),
            names: ["(intercept)", "a", "b"].map(String::from).to_vec(),
            x: (0..rows).flat_map(|row| [1.0, wave(row), wave(row + 1)]).collect(),
            groupings: vec![Grouping {
                name: "g".into(),
                levels: (0..LEVELS).map(|level| level.to_string()).collect(),
                level_of_row: (0..rows).map(|row| (row * 7919 % LEVELS) as u32).collect(),
                columns: vec!["(intercept)".into()],
                z: vec![1.0; rows],
                ..Grouping::default()
            }],
            ..EffectsData::default()
        };
        let begin = Instant::now();
        let model = EffectsModel::new(family, data, &[]).expect("the data are valid");
        let built = begin.elapsed().as_secs_f64();
        let d = model.dim();
        let z: Vec<f64> = (0..POINTS * d).map(|i| 0.3 * wave(3 * i)).collect();
        let (mut log_p, mut grad, mut scratch) = (vec![0.0; POINTS], vec![0.0; POINTS * d], Scratch::default());
        let mut best = f64::INFINITY;
        for _ in 0..10 {
            let begin = Instant::now();
            let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: None };
            model.eval(Rows::All, Points::new(&z, d), out, &mut scratch).expect("the points are finite");
            best = best.min(begin.elapsed().as_secs_f64());
        }
        let each = best * 1e9 / (rows * POINTS) as f64;
        println!("{:18} {each:6.2} ns per row and point, built in {built:.2} s", family.name());
    }
}
