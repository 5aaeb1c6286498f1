//! The moments describe the mixture, checked against draws; damaged files are refused.

use super::*;
use natmix::Scratch;
use natmix::family::Covariances;
use natmix::target::{EvalOut, Points, Rows, TargetError};

/// A target whose parameters are a given function of its coordinates.
struct NamedTarget {
    dim: usize,
    names: &'static [&'static str],
    map: fn(&[f64], &mut [f64]),
}

impl Target for NamedTarget {
    fn dim(&self) -> usize {
        self.dim
    }
    fn eval(&self, _: Rows<'_>, _: Points<'_>, _: EvalOut<'_>, _: &mut Scratch) -> Result<(), TargetError> {
        Ok(())
    }
    fn parameter_names(&self) -> Vec<String> {
        self.names.iter().map(|name| (*name).to_owned()).collect()
    }
    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        (self.map)(z, parameters);
    }
}

/// Coefficients of standardised columns on the user's own scale, and a noise that is fitted on the log scale.
const REGRESSION: NamedTarget = NamedTarget {
    dim: 3,
    names: &["intercept", "slope", "noise"],
    map: |z, out| out.copy_from_slice(&[z[0] - 4.0 * z[1], 0.5 * z[1] + 1.0, z[2].exp()]),
};

fn mixture(shift: f64) -> Mixture {
    let covariances = [
        vec![vec![1.0, 0.4, 0.1], vec![0.4, 0.5, 0.0], vec![0.1, 0.0, 0.2]],
        vec![vec![0.3, -0.1, 0.0], vec![-0.1, 0.8, 0.2], vec![0.0, 0.2, 0.6]],
    ];
    let means = [vec![1.0, 2.0, 0.0], vec![-1.0, 0.5 + shift, 0.3]];
    Mixture::from_moments(&[0.7, 0.3], &means, Covariances::Full(&covariances)).unwrap()
}

fn frame(iteration: u64, mixture: Mixture) -> Frame {
    Frame { iteration, evals: 10 * iteration, elbo: -1.0, mixture }
}

fn iterations(formation: &Formation) -> Vec<u64> {
    formation.moments.iter().map(|moment| moment.iteration).collect()
}

#[test]
fn moments_match_draws_of_the_parameters() {
    let q = mixture(0.0);
    let formation = Formation::new(&REGRESSION, &[], &frame(1, q.clone()), None, 10);
    // The noise is not an affine function of its logarithm.
    assert_eq!((&formation.names[..], formation.fitted_scale), (&["intercept".into(), "slope".into()][..], false));
    // Mean and covariance of the mixture, from its moments and from draws.
    let moment = &formation.moments[0];
    let n = 200_000;
    let draws: Vec<[f64; 2]> = q.sample(n, 5).chunks(3).map(|z| [z[0] - 4.0 * z[1], 0.5 * z[1] + 1.0]).collect();
    for i in 0..2 {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / n as f64;
        let drawn = mean(&mut draws.iter().map(|x| x[i]));
        let reported: f64 = moment.weights.iter().zip(&moment.means).map(|(w, m)| w * m[i]).sum();
        let square = mean(&mut draws.iter().map(|x| x[i] * x[i]));
        let error = ((square - drawn * drawn) / n as f64).sqrt();
        assert!((drawn - reported).abs() < 5.0 * error, "{i}: {drawn} from draws, {reported} reported");
        for j in 0..2 {
            let drawn = mean(&mut draws.iter().map(|x| x[i] * x[j]));
            let reported: f64 = (0..2)
                .map(|k| moment.weights[k] * (moment.covariances[k][i][j] + moment.means[k][i] * moment.means[k][j]))
                .sum();
            let spread = mean(&mut draws.iter().map(|x| (x[i] * x[j] - drawn).powi(2)));
            let error = (spread / n as f64).sqrt();
            assert!(error < 0.02 * reported.abs(), "too coarse");
            assert!((drawn - reported).abs() < 5.0 * error, "{i} {j}: {drawn} from draws, {reported} reported");
        }
    }
}

#[test]
fn the_coordinates_that_move_most_are_shown() {
    let plain = NamedTarget { dim: 3, names: &["a", "b", "c"], map: |z, out| out.copy_from_slice(z) };
    let still = Formation::new(&plain, &[], &frame(2, mixture(0.0)), None, 10);
    assert_eq!(still.names, ["a", "b"]);
    let mut far = mixture(0.0);
    far = Mixture::new(
        &far.weights(),
        far.components()
            .iter()
            .map(|c| {
                let mean = vec![c.mean()[0], c.mean()[1] + 9.0, c.mean()[2] - 9.0];
                natmix::family::Gaussian::new(mean, c.precision().clone())
            })
            .collect(),
    )
    .unwrap();
    let moved = Formation::new(&plain, &[frame(1, far)], &frame(2, mixture(0.0)), None, 10);
    assert_eq!((&moved.names[..], moved.fitted_scale), (&["b".into(), "c".into()][..], false));
    // Parameters that no Gaussian describes are shown as they were fitted, products of two coordinates included.
    for map in [
        |z: &[f64], out: &mut [f64]| out.iter_mut().zip(z).for_each(|(out, z)| *out = z.exp()),
        |z: &[f64], out: &mut [f64]| out.copy_from_slice(&[z[0] * z[1], z[1] * z[2], z[2]]),
    ] {
        let bent = NamedTarget { map, ..plain };
        let formation = Formation::new(&bent, &[], &frame(2, mixture(0.0)), None, 10);
        assert!(formation.fitted_scale);
        assert_eq!(formation.moments[0].means[0], still.moments[0].means[0]);
    }
}

#[test]
fn moments_are_thinned_evenly_and_continue_earlier_ones() {
    let frames: Vec<Frame> = (0..60).map(|i| frame(1 + i, mixture(0.0))).collect();
    let formation = Formation::new(&REGRESSION, &frames, &frame(60, mixture(1.0)), None, 7);
    assert_eq!(iterations(&formation), [1, 11, 21, 30, 40, 50, 60]);
    // The last one is the result, not the frame of the same iteration.
    assert!(formation.moments[6].means[1] != formation.moments[5].means[1]);
    let later: Vec<Frame> = (61..=120).map(|i| frame(i, mixture(0.0))).collect();
    let all = Formation::new(&REGRESSION, &later, &frame(120, mixture(0.0)), Some(formation.clone()), 7);
    assert_eq!(iterations(&all), [1, 21, 40, 60, 80, 100, 120]);
    // Moments in other coordinates are discarded.
    let other = Formation { names: vec!["x".into(), "y".into()], ..formation };
    let fresh = Formation::new(&REGRESSION, &later, &frame(120, mixture(0.0)), Some(other), 500);
    assert_eq!((fresh.moments[0].iteration, fresh.moments.len()), (61, 60));
}

#[test]
fn a_file_is_read_back_and_a_damaged_one_is_refused() {
    let formation = Formation::new(&REGRESSION, &[frame(1, mixture(2.0))], &frame(2, mixture(0.0)), None, 10);
    let text = serde_json::to_string(&formation).unwrap();
    assert_eq!(Formation::read(&text, "frames.json").unwrap(), formation);
    let damages: [fn(&mut Formation); 6] = [
        |f| drop(f.names.pop()),
        |f| f.names.push("c".into()),
        |f| drop(f.moments[0].means.pop()),
        |f| f.moments[1].weights[0] = -0.1,
        |f| drop(f.moments[0].covariances[1].pop()),
        |f| f.moments[0].covariances[0][1].clear(),
    ];
    for damage in damages {
        let mut damaged = formation.clone();
        damage(&mut damaged);
        let error = Formation::read(&serde_json::to_string(&damaged).unwrap(), "frames.json").unwrap_err();
        assert!(error.to_string().starts_with("frames.json: is damaged"), "{error}");
    }
    let error = Formation::read("{}", "frames.json").unwrap_err();
    assert!(error.to_string().contains("was not written by natmix"), "{error}");
}
