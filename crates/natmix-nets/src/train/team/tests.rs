use super::*;
use crate::train::{Epoch, Optimiser, Schedule, Trainer};
use crate::{Activation, Examples, Network, NetworkLikelihood};
use natmix_models::ranks::channels;
use std::thread;

const CLASSES: NetworkLikelihood = NetworkLikelihood::Categorical { classes: 3 };

fn examples(likelihood: NetworkLikelihood, rows: usize) -> Examples {
    let x = (0..2 * rows).map(|i| (1.7 * i as f32).sin()).collect();
    let y = (0..rows).map(|r| if likelihood == CLASSES { (r * r % 3) as f32 } else { (1.3 * r as f32).cos() });
    Examples::new(x, 2, y.collect()).unwrap()
}

/// The end of a training: its state, its last epoch, and whether components overlapped.
fn train(mut trainer: Trainer<'_>) -> Result<(TrainState, Epoch), Error> {
    let mut last = None;
    while trainer.epochs_done() < trainer.config().epochs {
        loop {
            assert_eq!(trainer.meet(Decision::default())?, Decision::default());
            if trainer.step()? == 0 {
                break;
            }
        }
        last = Some(trainer.finish_epoch()?);
    }
    Ok((trainer.state().clone(), last.expect("an epoch")))
}

/// The same with threads as processes: what rank 0 has.
fn train_together(
    ranks: usize,
    (network, data, config): (&Network, &Examples, &TrainConfig),
) -> Result<(TrainState, Epoch), String> {
    thread::scope(|scope| {
        let each = channels(ranks).into_iter().map(|communicator| {
            scope.spawn(|| {
                let ranks = Arc::new(Ranks::new(communicator));
                let team = Team::new(ranks, config).unwrap();
                // Others would start from something else.
                let config = TrainConfig { seed: if team.leads() { config.seed } else { 99 }, ..config.clone() };
                let state = TrainState::new(network, &config);
                let config = TrainConfig { seed: 5, ..config };
                let trainer = Trainer::resume(network, data, config, state).unwrap();
                trainer.share(team).and_then(train).map_err(|error| error.to_string())
            })
        });
        let all: Vec<_> = each.collect();
        let mut found = all.into_iter().map(|thread| thread.join().unwrap());
        let first = found.next().unwrap();
        assert!(found.all(|other| other.is_ok() == first.is_ok()));
        first
    })
}

#[test]
fn components_trained_by_several_processes_have_the_same_bits() {
    let data = examples(CLASSES, 300);
    for (optimiser, hidden) in [
        (Optimiser::Vogn, &[5][..]),
        // So many weights that components do not overlap.
        (Optimiser::Vogn, &[60, 40]),
        (Optimiser::Ivon, &[5]),
        (Optimiser::Adam, &[5]),
    ] {
        let network = Network::new(2, hidden, Activation::Relu, CLASSES).unwrap();
        let usual = TrainConfig::for_data(&network, 300);
        let config = TrainConfig { optimiser, components: 3, epochs: 4, batch: 16, seed: 5, ..usual };
        let alone = train(Trainer::new(&network, &data, config.clone()).unwrap()).unwrap();
        for ranks in [2, 3, 5] {
            let together = train_together(ranks, (&network, &data, &config)).unwrap();
            assert!(together == alone, "{optimiser:?} {hidden:?} {ranks}");
        }
    }
}

#[test]
fn minibatches_computed_by_several_processes_have_the_same_bits() {
    for (likelihood, optimiser) in [
        (CLASSES, Optimiser::Vogn),
        (CLASSES, Optimiser::Ivon),
        (NetworkLikelihood::Gaussian, Optimiser::Vogn),
        (NetworkLikelihood::Gaussian, Optimiser::Adam),
    ] {
        // The last minibatch of an epoch has two blocks, the others three.
        let data = examples(likelihood, 1_000);
        // Wider than a panel, so that there are several tasks.
        let network = Network::new(2, &[130, 7], Activation::Tanh, likelihood).unwrap();
        let usual = TrainConfig::for_data(&network, 1_000);
        let config = TrainConfig { optimiser, epochs: 3, batch: 380, draws: 2, seed: 5, ..usual };
        let alone = train(Trainer::new(&network, &data, config.clone()).unwrap()).unwrap();
        for ranks in [2, 3, 4] {
            let together = train_together(ranks, (&network, &data, &config)).unwrap();
            assert!(together == alone, "{likelihood:?} {optimiser:?} {ranks}");
        }
    }
}

#[test]
fn a_component_that_fails_is_named_by_all() {
    let data = examples(CLASSES, 60);
    let network = Network::new(2, &[5], Activation::Relu, CLASSES).unwrap();
    for components in [1, 3] {
        let wild = TrainConfig {
            components,
            optimiser: Optimiser::Adam,
            rate: 1e3,
            weight_decay: 1.0,
            schedule: Schedule::Constant,
            batch: 10,
            epochs: 200,
            seed: 5,
            ..TrainConfig::for_data(&network, 60)
        };
        if components == 1 {
            let refused = Team::new(Arc::new(Ranks::new(channels(2).remove(0))), &wild).unwrap_err().to_string();
            assert!(refused.contains("minibatches of 10 rows cannot be shared"), "{refused}");
            continue;
        }
        let alone = train(Trainer::new(&network, &data, wild.clone()).unwrap()).map_err(|error| error.to_string());
        let together = train_together(2, (&network, &data, &wild));
        assert_eq!(together.is_err(), alone.is_err());
        assert_eq!(together.err(), alone.err());
    }
}

#[test]
fn numbers_arrive_as_they_were_packed() {
    let (a, b) = ([1.5_f32, f32::NAN, -0.0], [3.25_f32, f32::NEG_INFINITY]);
    let message = pack([&a, &b]);
    let (mut own_a, mut own_b) = ([0.0; 3], [0.0; 2]);
    unpack(&message, [&mut own_a, &mut own_b]).unwrap();
    assert_eq!(own_a.map(f32::to_bits), a.map(f32::to_bits));
    assert_eq!(own_b.map(f32::to_bits), b.map(f32::to_bits));
    assert!(unpack(&message[1..], [&mut own_a, &mut own_b]).is_none());
    assert!(unpack(&[&message[..], &[0.0]].concat(), [&mut own_a, &mut own_b]).is_none());
}
