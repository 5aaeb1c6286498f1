//! Simulation-based calibration (Talts and others, 2018): where parameters are drawn from their priors and data given these, the
//! share of posterior draws below the true value is uniform over many data sets. Counts and yes-or-no answers have no exact
//! posterior; this needs none.

#[path = "common/normal_hierarchy.rs"]
mod normal_hierarchy;
#[path = "common/right.rs"]
mod right;

use natmix::target::Target;
use natmix::{Config, fit};
use natmix_models::effects::{EffectsData, EffectsModel, Family, GroupCoefficients, Grouping, PriorStatement};
use normal_hierarchy::Stream;
use right::delivered;

const ROWS_PER_GROUP: usize = 5;
/// The parameters whose ranks are counted: both coefficients, the standard deviation, and effects of this many groups.
const EFFECTS: usize = 10;
const SCALES: usize = 3;
/// Cells of the histogram of ranks.
const CELLS: usize = 10;
/// Of a chi-square variable with nine degrees of freedom one in 100,000 is larger.
const LIMIT: f64 = 39.3;

/// Parameters from their priors (in the order of the model), and data.
fn simulate(family: Family, groups: usize, random: &mut Stream) -> (EffectsData, Vec<f64>) {
    let rows = groups * ROWS_PER_GROUP;
    let x: Vec<f64> = (0..rows).map(|_| random.normal()).collect();
    let (at_mean, slope, sd) = (random.normal(), 0.5 * random.normal(), random.normal().abs());
    let intercept = at_mean - slope * x.iter().sum::<f64>() / rows as f64;
    let effects: Vec<f64> = (0..groups).map(|_| sd * random.normal()).collect();
    let outcome = |row: usize, random: &mut Stream| {
        let eta = intercept + slope * x[row] + effects[row % groups];
        if family == Family::Logistic {
            return f64::from(u8::from(random.uniform() < 1.0 / (1.0 + (-eta).exp())));
        }
        // Arrivals until the time is up.
        let (mut count, mut left) = (-1.0, eta.exp());
        while left > 0.0 {
            left += random.uniform().ln();
            count += 1.0;
        }
        count
    };
    let data = EffectsData {
        y: (0..rows).map(|row| outcome(row, random)).collect(),
        names: vec!["(intercept)".into(), "x".into()],
        x: x.iter().flat_map(|x| [1.0, *x]).collect(),
        groupings: vec![Grouping {
            name: "g".into(),
            levels: (0..groups).map(|level| level.to_string()).collect(),
            level_of_row: (0..rows).map(|row| (row % groups) as u32).collect(),
            columns: vec!["(intercept)".into()],
            z: vec![1.0; rows],
            coefficients: GroupCoefficients::Correlated,
        }],
        ..EffectsData::default()
    };
    (data, [vec![intercept, slope, sd], effects].concat())
}

/// Ranks, as shares between 0 and 1: by parameter, over data sets.
#[derive(Default)]
struct Ranks {
    right: Vec<Vec<f64>>,
    /// Of draws that are half as far from their mean, and of draws that are off by a standard deviation.
    narrow: Vec<Vec<f64>>,
    shifted: Vec<Vec<f64>>,
    trusted: usize,
}

fn chi_square<'a>(ranks: impl Iterator<Item = &'a f64>) -> f64 {
    let mut counts = [0.0; CELLS];
    let mut total = 0.0;
    for rank in ranks {
        counts[((rank * CELLS as f64) as usize).min(CELLS - 1)] += 1.0;
        total += 1.0;
    }
    let expected = total / CELLS as f64;
    counts.iter().map(|count| (count - expected) * (count - expected) / expected).sum()
}

fn ranks(family: Family, data_sets: usize, groups: usize) -> Ranks {
    let priors: Vec<PriorStatement> = ["(intercept) ~ normal(0, 1)", "x ~ normal(0, 0.5)", "sd(g) ~ half_normal(1)"]
        .map(|text| text.parse().unwrap())
        .to_vec();
    let mut found = Ranks::default();
    let mut random = Stream::new(200);
    for seed in 1..=data_sets as u64 {
        let (data, truth) = simulate(family, groups, &mut random);
        let model = EffectsModel::new(family, data, &priors).unwrap();
        let fitted = fit(&model, &Config { seed, threads: 1, ..Config::default() }).unwrap();
        let verdict = &fitted.diagnostics.as_ref().unwrap().verdict;
        found.trusted += usize::from(verdict.trusted);
        if !verdict.trusted {
            println!("{}, data set {seed}: {:?}", family.name(), verdict.reasons);
        }
        let (draws, weights) = delivered(&model, &fitted);
        let (d, total) = (model.dim(), weights.iter().sum::<f64>());
        let of = |j: usize| draws.iter().skip(j).step_by(d).zip(weights.iter().map(|w| w / total));
        let rank = |j: usize, at: f64| of(j).filter(|(x, _)| **x < at).map(|(_, w)| w).sum::<f64>();
        let push = |into: &mut Vec<Vec<f64>>, rank: &dyn Fn(usize) -> f64| {
            into.push((0..SCALES + EFFECTS).map(rank).collect());
        };
        let moments = |j: usize| {
            let mean: f64 = of(j).map(|(x, w)| w * x).sum();
            (mean, of(j).map(|(x, w)| w * (x - mean).powi(2)).sum::<f64>().sqrt())
        };
        push(&mut found.right, &|j| rank(j, truth[j]));
        push(&mut found.narrow, &|j| rank(j, moments(j).0 + 2.0 * (truth[j] - moments(j).0)));
        push(&mut found.shifted, &|j| rank(j, truth[j] - moments(j).1));
        if seed % 10 == 0 {
            println!("{}, {seed} data sets, {} trusted", family.name(), found.trusted);
        }
    }
    found
}

/// Chi-square of the ranks of each of the three parameters and of all effects together.
fn tests(ranks: &[Vec<f64>]) -> [f64; SCALES + 1] {
    std::array::from_fn(|k| match k {
        SCALES => chi_square(ranks.iter().flat_map(|of_set| &of_set[SCALES..])),
        k => chi_square(ranks.iter().map(|of_set| &of_set[k])),
    })
}

fn check(family: Family) {
    // The large version takes several minutes of processor time.
    let long = std::env::var_os("NATMIX_LONG").is_some();
    let (data_sets, groups) = if long { (100, 200) } else { (40, 45) };
    let found = ranks(family, data_sets, groups);
    let [right, narrow, shifted] = [&found.right, &found.narrow, &found.shifted].map(|ranks| tests(ranks));
    println!(
        "{}: {data_sets} data sets of {groups} groups, {} trusted; chi-square {right:.1?}, of narrow draws {narrow:.1?}, of shifted ones {shifted:.1?}",
        family.name(),
        found.trusted
    );
    assert!(right.iter().all(|chi| *chi < LIMIT), "{right:?}");
    // Effects are counted often enough to show either fault, even in the small version.
    for wrong in [narrow, shifted] {
        assert!(wrong[SCALES] > LIMIT, "{wrong:?}");
    }
    assert!(found.trusted * 20 >= data_sets * 19, "{} of {data_sets} are trusted", found.trusted);
}

#[test]
fn counts_in_groups() {
    check(Family::Poisson);
}

#[test]
fn answers_in_groups() {
    check(Family::Logistic);
}
