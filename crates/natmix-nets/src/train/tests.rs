//! Training: gradients against those of the target, same bits for any number of threads and after a resume, overlap, errors.

use super::*;
use crate::{Activation, Mlp, NetworkLikelihood};
use blocks::{MOST_ROWS, RowBlock};
use component::{ComponentWork, NetworkComponent, Step};
use natmix::Scratch;
use natmix::target::{Curvature, CurvatureShape, CurvatureSums, EvalOut, Points, Rows, Target};
use natmix_models::observations::Observations;

const LIKELIHOODS: [NetworkLikelihood; 3] =
    [NetworkLikelihood::Bernoulli, NetworkLikelihood::Categorical { classes: 3 }, NetworkLikelihood::Gaussian];

fn examples(likelihood: NetworkLikelihood, rows: usize) -> Examples {
    let x = (0..2 * rows).map(|i| (1.7 * i as f32).sin()).collect();
    let y = (0..rows).map(|r| match likelihood {
        NetworkLikelihood::Bernoulli => f32::from(r % 3 == 1),
        NetworkLikelihood::Categorical { classes } => (r * r % classes) as f32,
        NetworkLikelihood::Gaussian => (1.3 * r as f32).cos(),
    });
    Examples::new(x, 2, y.collect()).unwrap()
}

fn network(likelihood: NetworkLikelihood) -> Network {
    Network::new(2, &[5, 4], Activation::Tanh, likelihood).unwrap()
}

fn in_pool<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

/// With rate 1, momentum 0, curvature rate 1 and no damping a step reveals the gradient and curvature that it used.
#[test]
fn a_step_uses_the_target_s_derivatives() {
    // One block of rows, and three.
    for (likelihood, rows) in
        LIKELIHOODS.into_iter().flat_map(|likelihood| [(likelihood, 11), (likelihood, 2 * MOST_ROWS + 11)])
    {
        let (network, data) = (network(likelihood), examples(likelihood, rows));
        let one_output = likelihood.outputs() == 1;
        for curvature in [CurvatureKind::EmpiricalFisher, CurvatureKind::GaussNewton] {
            if curvature == CurvatureKind::GaussNewton && !one_output {
                continue;
            }
            let config = TrainConfig {
                momentum: 0.0,
                curvature_rate: 1.0,
                rate: 1.0,
                schedule: Schedule::Constant,
                batch: rows,
                curvature,
                first_precision: 1e9,
                prior_precision: vec![2.0; 3],
                draws: 2,
                ..TrainConfig::for_data(&network, rows)
            };
            let mut component = NetworkComponent::start(&network, &config, 0);
            let start = component.clone();
            let mut work = ComponentWork::new(&network, &config);
            let mut batch = RowBlock::all(&network, &config);
            let all: Vec<u32> = (0..rows as u32).collect();
            assert_eq!(RowBlock::gather(&mut batch, &data, &all, &TrainingTimer::default()), batch.len());
            // Two draws that barely differ from the mean.
            work.draw(&component, &config, Stream::new(1, StreamPurpose::Weights, 0, 0, 0), false);
            component.prec.fill(1e-3);
            work.evaluate(&network, &component, &config, (&batch, 0..batch.len()));
            let panels = [Mutex::new(vec![0.0; 100_000])];
            let numbers = config.step_constants(0, 1);
            let step = Step {
                network: &network,
                config: &config,
                work: &work,
                batch: &batch,
                scale: 1.0,
                numbers,
                panels: &panels,
            };
            component.step(step, None, None);

            let x = data.x().iter().map(|x| f64::from(*x)).collect();
            let y = data.outcome().iter().map(|y| f64::from(*y)).collect();
            let table = Observations::new(x, 2, y).unwrap();
            let target = Mlp::new(network.clone(), table, &[0.5f64.sqrt()]).unwrap();
            let z: Vec<f64> = start.mean.iter().map(|m| f64::from(*m)).collect();
            let (mut log_p, mut grad, mut sums) = ([0.0], vec![0.0; z.len()], vec![0.0; z.len()]);
            let kind = match curvature {
                CurvatureKind::GaussNewton => Curvature::GaussNewton,
                CurvatureKind::EmpiricalFisher => Curvature::EmpiricalFisher,
            };
            let curv = CurvatureSums { kind, shape: CurvatureShape::Diag, weights: &[1.0], sums: &mut sums };
            let out = EvalOut { log_p: &mut log_p, grad: Some(&mut grad), curv: Some(curv) };
            target.eval(Rows::All, Points::new(&z, z.len()), out, &mut Scratch::default()).unwrap();
            // Single precision, and draws that differ a little.
            let tolerance = 2e-4 * rows as f64;
            for j in 0..network.noise_at() {
                let (s, v) = (f64::from(component.prec[j]), f64::from(component.velocity[j]));
                assert!(
                    (s + sums[j]).abs() < tolerance * (1.0 + s.abs()),
                    "{likelihood:?} {curvature:?} {j}: {s} {}",
                    sums[j]
                );
                assert!(
                    (v - grad[j]).abs() < tolerance * (1.0 + v.abs()),
                    "{likelihood:?} {curvature:?} {j}: {v} {}",
                    grad[j]
                );
                let moved = f64::from(component.mean[j]) - z[j];
                assert!((moved - v / s).abs() < 1e-4 * (1.0 + moved.abs()));
            }
            if likelihood == NetworkLikelihood::Gaussian {
                let j = network.noise_at();
                assert!((f64::from(component.velocity[j]) - grad[j]).abs() < tolerance * (1.0 + grad[j].abs()));
            }
        }
    }
}

fn settings(network: &Network, optimiser: Optimiser) -> TrainConfig {
    TrainConfig {
        optimiser,
        components: 3,
        epochs: 4,
        batch: 16,
        draws: 2,
        seed: 5,
        ..TrainConfig::for_data(network, 70)
    }
}

#[test]
fn bits_do_not_depend_on_threads_or_on_a_pause() {
    // Wider than a panel, so that there are several tasks.
    let network = Network::new(2, &[130, 7], Activation::Relu, NetworkLikelihood::Categorical { classes: 3 }).unwrap();
    let data = examples(NetworkLikelihood::Categorical { classes: 3 }, 70);
    for optimiser in [Optimiser::Vogn, Optimiser::Ivon, Optimiser::Adam] {
        let config = settings(&network, optimiser);
        let run = |threads: usize| {
            in_pool(threads, || {
                let mut trainer = Trainer::new(&network, &data, config.clone()).unwrap();
                let mut last = None;
                while let Some(epoch) = trainer.epoch().unwrap() {
                    last = Some(epoch);
                }
                (trainer.state().clone(), last.unwrap())
            })
        };
        let (state, epoch) = run(1);
        assert_eq!((state.clone(), epoch.clone()), run(2));
        assert_eq!((state.clone(), epoch.clone()), run(3));

        // Killed within the second epoch.
        let folder = std::env::temp_dir().join(format!("natmix-train-{}-{optimiser:?}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("checkpoint");
        let mut trainer = Trainer::new(&network, &data, config.clone()).unwrap();
        trainer.epoch().unwrap();
        trainer.step().unwrap();
        trainer.step().unwrap();
        trainer.state().save(&path, &network, &config).unwrap();
        let loaded = TrainState::load(&path, &network, &config).unwrap();
        assert_eq!(&loaded, trainer.state());
        let mut trainer = Trainer::resume(&network, &data, config.clone(), loaded).unwrap();
        let mut last = None;
        while let Some(epoch) = trainer.epoch().unwrap() {
            last = Some(epoch);
        }
        assert_eq!((trainer.state(), last.unwrap()), (&state, epoch));

        // Damage is refused.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(TrainState::load(&path, &network, &config).unwrap_err().to_string().contains("is damaged"));
        let other = TrainConfig { seed: 6, ..config.clone() };
        std::fs::write(&path, &bytes).unwrap();
        assert!(TrainState::load(&path, &network, &other).unwrap_err().to_string().contains("other settings"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

/// Two equal components act as one: every responsibility is one half and the terms vanish.
#[test]
fn overlapping_components_share_terms() {
    let network = network(NetworkLikelihood::Bernoulli);
    let config = TrainConfig { components: 2, batch: 10, draws: 1, ..TrainConfig::for_data(&network, 20) };
    let first = NetworkComponent::start(&network, &config, 0);
    let mut second = first.clone();
    let mut work: Vec<ComponentWork> = (0..2).map(|_| ComponentWork::new(&network, &config)).collect();
    for (k, work) in work.iter_mut().enumerate() {
        work.draw(&first, &config, Stream::new(1, StreamPurpose::Weights, k as u64, 0, 0), false);
    }
    let log_w = [0.5f64.ln(); 2];
    let mut monitor = OverlapMonitor::new(2);
    monitor.update(&[first.clone(), second.clone()], &log_w, &work, None).unwrap();
    assert!((monitor.mean_log_responsibility(0) - 0.5f64.ln()).abs() < 1e-12);
    let terms = monitor.terms(0).expect("they overlap");
    assert!(terms.grad.iter().chain(terms.hess).all(|x| x.abs() < 1e-3));
    // A shift of two standard deviations in one weight: against differences of log q.
    second.mean[3] += 2.0 / second.prec[3].sqrt();
    monitor.update(&[first.clone(), second.clone()], &log_w, &work, None).unwrap();
    let (terms, w) = (monitor.terms(0).expect("they overlap"), &work[0].samples);
    let log_q = |at: f64| -> f64 {
        let of = |c: &NetworkComponent| {
            let s = f64::from(c.prec[3]);
            let others: f64 = (0..w.len())
                .filter(|i| *i != 3)
                .map(|i| -0.5 * f64::from(c.prec[i]) * f64::from(w[i] - c.mean[i]).powi(2))
                .sum();
            others - 0.5 * s * (at - f64::from(c.mean[3])).powi(2)
        };
        let (a, b) = (of(&first), of(&second));
        a.max(b) + (-(a - b).abs()).exp().ln_1p()
    };
    let (at, step) = (f64::from(w[3]), 1e-4);
    let s = f64::from(first.prec[3]);
    let slope = (log_q(at + step) - log_q(at - step)) / (2.0 * step) - s * (f64::from(first.mean[3]) - at);
    let curve = (log_q(at + step) - 2.0 * log_q(at) + log_q(at - step)) / (step * step) + s;
    assert!((f64::from(terms.grad[3]) - slope).abs() < 1e-3 * (1.0 + slope.abs()), "{} {slope}", terms.grad[3]);
    assert!((f64::from(terms.hess[3]) - curve).abs() < 1e-2 * (1.0 + curve.abs()), "{} {curve}", terms.hess[3]);
    // Far apart there is nothing to compute.
    second.mean[3] += 1e3;
    work[1].draw(&second, &config, Stream::new(1, StreamPurpose::Weights, 1, 0, 0), false);
    let mut monitor = OverlapMonitor::new(2);
    monitor.update(&[first, second], &log_w, &work, None).unwrap();
    assert!(monitor.terms(0).is_none() && monitor.mean_log_responsibility(0) == 0.0);
}

#[test]
fn learned_weights_favour_better_components_without_collapse() {
    let likelihood = NetworkLikelihood::Gaussian;
    let (network, data) = (network(likelihood), examples(likelihood, 60));
    for (step, least) in
        [(WeightStep::Equal, 1.0 / 3.0 - 1e-12), (WeightStep::Bounded, 1e-3), (WeightStep::Tempered, 0.05)]
    {
        let config =
            TrainConfig { components: 3, epochs: 5, weight_step: step, seed: 2, ..TrainConfig::for_data(&network, 60) };
        let mut trainer = Trainer::new(&network, &data, config).unwrap();
        let mut last = trainer.epoch().unwrap().unwrap();
        while let Some(epoch) = trainer.epoch().unwrap() {
            last = epoch;
        }
        assert!((last.weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(last.weights.iter().all(|w| *w >= least), "{step:?} {:?}", last.weights);
        assert_eq!(step == WeightStep::Equal, last.weights.iter().all(|w| (w - 1.0 / 3.0).abs() < 1e-12));
    }
}

#[test]
fn bad_settings_are_named() {
    let (network, data) = (
        network(NetworkLikelihood::Categorical { classes: 3 }),
        examples(NetworkLikelihood::Categorical { classes: 3 }, 20),
    );
    let base = TrainConfig::for_data(&network, 20);
    let message = |config| Trainer::new(&network, &data, config).err().unwrap().to_string();
    assert!(message(TrainConfig { batch: 21, ..base.clone() }).contains("at most the 20 rows"));
    assert!(message(TrainConfig { epochs: 0, ..base.clone() }).contains("epochs"));
    assert!(message(TrainConfig { rate: f64::NAN, ..base.clone() }).contains("rate"));
    assert!(message(TrainConfig { curvature: CurvatureKind::GaussNewton, ..base.clone() }).contains("one output"));
    assert!(
        message(TrainConfig { prior_precision: vec![1.0], ..base.clone() }).contains("3 numbers, one per layer, not 1")
    );
    let wrong = Examples::new(vec![0.0; 4], 2, vec![0.0, 3.0]).unwrap();
    assert!(
        Trainer::new(&network, &wrong, TrainConfig { batch: 2, ..base.clone() })
            .err()
            .unwrap()
            .to_string()
            .contains("row 1 is 3")
    );
    assert!(Examples::new(vec![0.0, f32::NAN], 2, vec![0.0]).unwrap_err().to_string().contains("row 0, column 1"));
    let wild = TrainConfig { rate: 1e3, schedule: Schedule::Constant, first_precision: 1e-3, ..base };
    let mut trainer = Trainer::new(&network, &data, wild).unwrap();
    let end = (0..1000).find_map(|_| trainer.epoch().err());
    assert!(end.is_none_or(|error| error.to_string().contains("smaller rate")));
}

/// Panels of many inputs and few rows: the buffers are large enough for every optimiser.
#[test]
fn buffers_are_large_enough_for_wide_inputs() {
    let network = Network::new(700, &[100], Activation::Relu, NetworkLikelihood::Bernoulli).unwrap();
    let x = (0..700 * 8).map(|i| (1.7 * i as f32).sin()).collect();
    let data = Examples::new(x, 700, (0..8).map(|r| (r % 2) as f32).collect()).unwrap();
    for optimiser in [Optimiser::Vogn, Optimiser::Ivon, Optimiser::Adam] {
        let config = TrainConfig { optimiser, batch: 4, epochs: 1, draws: 2, ..TrainConfig::for_data(&network, 8) };
        let mut trainer = Trainer::new(&network, &data, config).unwrap();
        assert!(trainer.epoch().unwrap().unwrap().log_likelihood.is_finite(), "{optimiser:?}");
        assert!(trainer.seconds(TrainingWork::Products) > 0.0);
        assert_eq!(trainer.mixture().unwrap(), trainer.into_mixture().unwrap());
    }
}
