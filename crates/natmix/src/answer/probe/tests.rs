use super::*;
use crate::answer::diagnose::weigh_draws;
use crate::evaluate::{Limits, of_target};
use crate::family::Gaussian;
use crate::target::Target;
use crate::workspace::ScratchPool;

fn normal(mean: Vec<f64>, sd: f64) -> Mixture {
    Mixture::single(Gaussian::isotropic(mean, sd))
}

fn missed(target: &dyn Target, q: &Mixture, effort: Effort, seed: u64) -> Estimate {
    let pool = ScratchPool::new(1);
    let drawn = weigh_draws(target, q, 3000, seed).unwrap();
    missed_mass(&mut *of_target(target, &pool, Limits::default()), q, &drawn, (effort, &TimeLeft::default()), seed)
        .unwrap()
}

#[test]
fn an_exact_mixture_misses_nothing() {
    for d in [1, 5, 30] {
        let target = normal(vec![0.5; d], 2.0);
        // Slightly off, as a fit is.
        let q = normal(vec![0.55; d], 2.05);
        for effort in [Effort::Quick, Effort::Usual] {
            let found: Vec<Estimate> = (1..=10).map(|seed| missed(&target, &q, effort, seed)).collect();
            assert!(found.iter().all(|found| !is_too_much(found)), "d = {d}, {effort:?}: {found:?}");
        }
    }
}

#[test]
fn mass_beside_the_mixture_is_found_and_never_overstated() {
    for d in [2, 10] {
        // A tenth of the mass lies in a lobe that touches the rest, and that the mixture lacks.
        let mut aside = vec![0.0; d];
        aside[0] = 4.0;
        let target =
            Mixture::new(&[0.9, 0.1], vec![Gaussian::isotropic(vec![0.0; d], 1.0), Gaussian::isotropic(aside, 0.7)])
                .unwrap();
        let found: Vec<Estimate> =
            (1..=10).map(|seed| missed(&target, &normal(vec![0.0; d], 1.0), Effort::Usual, seed)).collect();
        let many = found.iter().filter(|found| is_too_much(found)).count();
        assert!(many >= 8, "d = {d}: {found:?}");
        assert!(found.iter().all(|found| found.mean - 3.0 * found.se < 0.1), "d = {d}: {found:?}");
    }
}
