//! Small built-in data sets with two classes in the plane: the paper's points, and sets made by formula, with the same
//! numbers on every machine.
//!
//! ```
//! let train = natmix_experiments::datasets::blobs(1);
//! assert_eq!((train.rows(), train.outcome().iter().sum::<f64>()), (100, 40.0));
//! let test = natmix_experiments::datasets::moons(500, 0.15, 2);
//! assert_eq!((test.rows(), test.features()), (500, 2));
//! ```

use natmix::Error;
use natmix_models::Observations;
use std::f64::consts::{PI, TAU};

/// Centres of the blobs; the last two are class 1.
const CENTRES: [[f64; 2]; 5] =
    [[-5.560137, 7.414646], [-5.865617, 8.372218], [-0.231776, 2.234877], [5.318157, 0.368360], [-4.063990, -6.245575]];

/// The paper's points: coordinates, blob and class.
const PAPER_POINTS: &str = include_str!("../data/blobs.csv");

/// Distance of a corner of the crossed blobs from both axes.
const CORNER: f64 = 3.0;

/// Points of a blob.
const EACH: usize = 20;

/// The 100 points of the paper's decision boundaries: five round blobs of standard deviation 1, 20 points each, made by
/// scikit-learn's `make_blobs(n_samples=100, n_features=2, centers=5, random_state=5)`. [`blobs`] draws others like them.
pub fn paper_points() -> Observations {
    let (mut x, mut class) = (Vec::new(), Vec::new());
    for line in PAPER_POINTS.lines().skip(1) {
        let fields: Vec<f64> = line.split(',').filter_map(|field| field.parse().ok()).collect();
        x.extend(&fields[..2]);
        class.push(fields[3]);
    }
    table(x, class)
}

/// 100 points in five round blobs of standard deviation 1, 20 each: the first three are class 0, the others class 1.
///
/// Each seed is an independent draw from the same distribution: one to train on, another to test on.
pub fn blobs(seed: u64) -> Observations {
    let mut normals = Normals::new(seed);
    let (mut x, mut class) = (Vec::new(), Vec::new());
    for (blob, centre) in CENTRES.iter().enumerate() {
        for _ in 0..EACH {
            x.extend(centre.map(|centre| centre + normals.next()));
            class.push(f64::from(u8::from(blob >= 3)));
        }
    }
    table(x, class)
}

/// 100 points in four round blobs of standard deviation 1 at the corners of a square, 25 each; opposite corners belong
/// to the same class, so that no line separates the classes.
pub fn crossed(seed: u64) -> Observations {
    let mut normals = Normals::new(seed);
    let (mut x, mut class) = (Vec::new(), Vec::new());
    for (a, b) in [(1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)] {
        for _ in 0..25 {
            x.extend([a, b].map(|side| CORNER * side + normals.next()));
            class.push(f64::from(u8::from(a != b)));
        }
    }
    table(x, class)
}

/// Two interleaving half circles, `n` points in all, the lower one class 1, with normal noise.
///
/// # Panics
/// If `n` is zero or `noise` is not finite.
pub fn moons(n: usize, noise: f64, seed: u64) -> Observations {
    let mut normals = Normals::new(seed);
    let (mut x, mut class) = (Vec::new(), Vec::new());
    let upper = n.div_ceil(2);
    for i in 0..n {
        let (place, count) = if i < upper { (i, upper) } else { (i - upper, n - upper) };
        let (sin, cos) = (PI * (place as f64 + 0.5) / count as f64).sin_cos();
        let point = if i < upper { [cos, sin] } else { [1.0 - cos, 0.5 - sin] };
        x.extend(point.map(|at| at + noise * normals.next()));
        class.push(f64::from(u8::from(i >= upper)));
    }
    table(x, class)
}

fn table(x: Vec<f64>, class: Vec<f64>) -> Observations {
    let named = |table: Observations| -> Result<_, Error> { table.with_names(vec!["x".into(), "y".into()]) };
    Observations::new(x, 2, class).and_then(named).expect("points in the plane, each with its class")
}

/// Standard normal numbers: a counter hashed to uniform bits, then the Box-Muller transform.
struct Normals {
    seed: u64,
    count: u64,
}

impl Normals {
    fn new(seed: u64) -> Self {
        Self { seed: mix(seed), count: 0 }
    }

    /// Uniform on (0, 1).
    fn uniform(&mut self) -> f64 {
        self.count += 1;
        let bits = mix(self.seed.wrapping_add(self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn next(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), TAU * self.uniform());
        radius * angle.cos()
    }
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of the input.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_standard_normal() {
        let mut normals = Normals::new(7);
        let values: Vec<f64> = (0..100_000).map(|_| normals.next()).collect();
        let moment = |power: i32| values.iter().map(|x| x.powi(power)).sum::<f64>() / values.len() as f64;
        let errors = [moment(1), moment(2) - 1.0, moment(3), moment(4) - 3.0];
        assert!(errors.iter().zip([0.013, 0.018, 0.05, 0.13]).all(|(error, limit)| error.abs() < limit), "{errors:?}");
    }

    #[test]
    fn the_papers_points_lie_around_the_centres() {
        let points = paper_points();
        assert_eq!((points.rows(), points.outcome().iter().sum::<f64>()), (100, 40.0));
        for (x, class) in points.design().chunks_exact(2).zip(points.outcome()) {
            let near = |blob: &usize| (x[0] - CENTRES[*blob][0]).hypot(x[1] - CENTRES[*blob][1]) < 4.0;
            assert!((0..5).filter(|blob| (*blob >= 3) == (*class == 1.0)).any(|blob| near(&blob)), "{x:?}");
        }
    }

    #[test]
    fn seeds_give_independent_draws_of_the_same_sets() {
        assert_eq!(blobs(1).design(), blobs(1).design());
        assert_ne!(blobs(1).design(), blobs(2).design());
        let far = |table: &Observations| table.design().chunks_exact(2).any(|x| x[0].abs() > 10.0 || x[1].abs() > 12.5);
        assert!((0..20).all(|seed| !far(&blobs(seed))));
        let table = crossed(1);
        assert_eq!((table.rows(), table.outcome().iter().sum::<f64>()), (100, 50.0));
        let right =
            table.design().chunks_exact(2).zip(table.outcome()).filter(|(x, y)| (x[0] * x[1] < 0.0) == (**y > 0.5));
        assert!(right.count() >= 98);
        // Without noise every point lies on its half circle.
        let table = moons(101, 0.0, 3);
        for (x, class) in table.design().chunks_exact(2).zip(table.outcome()) {
            let centre = if *class == 0.0 { (0.0, 0.0) } else { (1.0, 0.5) };
            assert!(((x[0] - centre.0).hypot(x[1] - centre.1) - 1.0).abs() < 1e-12);
        }
        assert_eq!(table.outcome().iter().sum::<f64>(), 50.0);
    }
}
