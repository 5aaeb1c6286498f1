use super::*;
use crate::automatic::SearchSummary;
use crate::config::OrAuto;
use crate::family::Covariances;

/// A state around `mixture`, with the same variance of the residual and radial share for all components.
fn state_of(mixture: Mixture, residual_variance: f64, radial_share: f64) -> AutomaticState {
    let mut state = AutomaticState::new(mixture, SearchSummary::default(), 1.0, 10);
    state.phase.residual_variance.fill(residual_variance);
    state.phase.radial_share.fill(radial_share);
    state
}

/// Splits the components of `state` into `wanted`, with that number fixed or not.
fn split(state: &mut AutomaticState, wanted: usize, fixed: bool) -> bool {
    let components = if fixed { OrAuto::Is(wanted) } else { OrAuto::Auto };
    let settings = Automatic { components, ..Automatic::default() };
    grow(state, &Config::default(), &settings, wanted).unwrap()
}

fn correlated() -> Mixture {
    let covariance = vec![vec![4.0, 1.0], vec![1.0, 1.0]];
    Mixture::from_moments(&[1.0], &[vec![1.0, -2.0]], Covariances::Full(&[covariance])).unwrap()
}

fn at(x: f64, sd: f64) -> Gaussian {
    Gaussian::isotropic(vec![x, 0.0], sd)
}

#[test]
fn only_components_that_do_not_fit_are_split() {
    let tuning = Tuning::default();
    let children = children(&[0.5, 0.3, 0.2], &[0.0, 1.0, 1.0], 13, &tuning);
    assert_eq!(children[0], 1);
    assert_eq!(children.iter().sum::<usize>(), 13);
    assert!(children[1] > children[2]);
    assert_eq!(super::children(&[1.0], &[0.0], 8, &tuning), [1]);
}

#[test]
fn a_split_in_direction_keeps_mean_and_covariance() {
    let mut state = state_of(correlated(), 1.0, 0.0);
    assert!(split(&mut state, 4000, false));
    let mixture = &state.mixture;
    assert_eq!(mixture.len(), 4000);
    let share = Tuning::default().growth_child_distance.powi(2) + Tuning::default().growth_child_width.powi(2);
    assert!((share - 0.99).abs() < 1e-12);
    // Standard errors: 0.7 times a standard deviation over the root of 4000, and about 0.5 * 4 * sqrt(2 / 4000).
    for (mean, wanted) in mixture.mean().iter().zip([1.0, -2.0]) {
        assert!((mean - wanted).abs() < 0.09, "{mean} {wanted}");
    }
    for (entry, wanted) in mixture.covariance().iter().zip([4.0, 1.0, 1.0, 1.0]) {
        assert!((entry - share * wanted).abs() < 0.18, "{entry} {wanted}");
    }
}

#[test]
fn children_are_new_components_with_equal_shares_of_the_weight() {
    let mixture = Mixture::new(&[0.75, 0.25], vec![at(0.0, 1.0), at(9.0, 1.0)]).unwrap();
    let mut state = state_of(mixture, 1.0, 0.0);
    state.phase.residual_variance[1] = 0.0;
    state.step_memory[1].objective = -3.0;
    assert!(split(&mut state, 5, false));
    // The second component fits: it stays as it is.
    assert_eq!(state.mixture.ids(), [2, 3, 4, 5, 1]);
    assert_eq!(state.phase.next_id, 6);
    for (k, weight) in state.mixture.weights().iter().enumerate() {
        let wanted = if k < 4 { 0.75 / 4.0 } else { 0.25 };
        assert!((weight - wanted).abs() < 1e-12, "{weight}");
        let new = state.step_memory[k].objective.is_nan();
        assert_eq!(new, k < 4);
    }
    assert_eq!((state.phase.draws.len(), state.phase.radial_share.len()), (5, 5));
}

#[test]
fn wrong_tails_are_split_into_a_ladder_of_widths() {
    let mut state = state_of(Mixture::single(at(3.0, 2.0)), 1.0, 0.9);
    assert!(split(&mut state, 20, false));
    // More widths than these would hardly differ.
    assert_eq!(state.mixture.len(), Tuning::default().growth_ladder_max);
    assert!(state.mixture.components().iter().all(|child| child.mean() == [3.0, 0.0]));
    let widths: Vec<f64> = state.mixture.components().iter().map(|child| child.sd()[0] / 2.0).collect();
    assert!(widths.is_sorted());
    let widest = Tuning::default().growth_ladder_log_width.exp();
    assert!((widths[0] * widest - 1.0).abs() < 1e-12 && (widths[8] / widest - 1.0).abs() < 1e-12, "{widths:?}");
    assert!((widths[4] - 1.0).abs() < 1e-12);
}

#[test]
fn a_fixed_number_is_reached_beyond_the_longest_ladder() {
    let mut state = state_of(Mixture::single(at(3.0, 2.0)), 1.0, 0.9);
    assert!(split(&mut state, 20, true));
    let displaced = state.mixture.components().iter().filter(|child| child.mean() != [3.0, 0.0]);
    assert_eq!((state.mixture.len(), displaced.count()), (20, 11));
}

#[test]
fn too_few_children_for_a_ladder_are_displaced() {
    let mut state = state_of(Mixture::single(at(3.0, 2.0)), 1.0, 0.9);
    assert!(split(&mut state, 2, false));
    let width = Tuning::default().growth_child_width;
    for child in state.mixture.components() {
        assert!(child.mean() != [3.0, 0.0] && (child.sd()[0] - 2.0 * width).abs() < 1e-12);
    }
}

#[test]
fn short_ladders_are_narrower() {
    let parent = Gaussian::isotropic(vec![0.0], 1.0);
    let widest = |count| ladder(&parent, count, 1.2).last().unwrap().sd()[0];
    assert!((widest(7) - 1.2_f64.exp()).abs() < 1e-12 && (widest(9) - 1.2_f64.exp()).abs() < 1e-12);
    assert!((widest(4) - 0.6_f64.exp()).abs() < 1e-12);
}

#[test]
fn equal_components_are_merged_and_light_ones_deleted() {
    let components = vec![at(0.0, 1.0), at(1e-3, 1.0), at(0.0, 1.5), at(5.0, 1.0)];
    let mut state = state_of(Mixture::new(&[0.3, 0.2, 0.5, 1e-7], components).unwrap(), 1.0, 0.0);
    merge(&mut state, Tuning::default().merge_max_kl).unwrap();
    assert_eq!(state.mixture.ids(), [0, 2, 3]);
    assert!((state.mixture.weights()[0] - 0.5).abs() < 1e-6);
    prune(&mut state, 8, 0.0, &Tuning::default()).unwrap();
    assert_eq!(state.mixture.ids(), [0, 2]);
    assert_eq!((state.step_memory.len(), state.phase.draws.len()), (2, 2));
    prune(&mut state, 1, 0.0, &Tuning::default()).unwrap();
    assert_eq!(state.mixture.len(), 1);
}

#[test]
fn a_component_that_is_losing_its_weight_counts_for_little() {
    let mixture = Mixture::new(&[0.5, 0.5], vec![at(0.0, 1.0), at(50.0, 1.0)]).unwrap();
    let mut state = state_of(mixture, 1.0, 0.0);
    assert_eq!(lasting_weights(&state), state.mixture.weights());
    state.step_memory[0].objective = -1.0;
    state.step_memory[1].objective = -100.0;
    let lasting = lasting_weights(&state);
    assert!((lasting[0] - 0.5).abs() < 1e-12 && lasting[1] < 1e-40, "{lasting:?}");
    assert!((reachable_elbo(&state) + 1.0).abs() < 1e-12);
}
