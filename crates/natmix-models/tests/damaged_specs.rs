//! Randomly damaged density specifications: refused with a message, or a density that can be evaluated.
//!
//! The fuzz target `read_spec` does the same without a limit; this test has a fixed seed.

use natmix::target::log_p_at;
use natmix_models::densities::Spec;

const SPECS: [&str; 6] = [
    r#"{"kind": "gaussian_mixture", "dim": 1, "weights": [1.0], "means": [[0.5]], "covariances": [[[2.0]]], "init": {"mean": 0.0, "sd": 1.0}}"#,
    r#"{"kind": "gaussian_mixture", "dim": 2, "weights": [0.25, 0.75], "means": [[0, 1], [2, 3]], "variances": [[1, 1], [1, 2]], "init": {"mean": [0, 0], "sd": [1, 1]}}"#,
    r#"{"kind": "student_mixture", "dim": 1, "df": 3, "weights": [1.0], "locations": [[0.5]], "scales": [[[2.0]]], "init": {"mean": 0.0, "sd": 1.0}}"#,
    r#"{"kind": "funnel", "dim": 3, "sd0": 3.0, "init": {"mean": 0.0, "sd": 1.0}}"#,
    r#"{"kind": "double_banana", "dim": 2, "observed": 2.3, "noise_variance": 0.09, "init": {"mean": 0.0, "sd": 1.0}}"#,
    r#"{"kind": "planar_robot", "dim": 3, "prior_sd": [0.2, 0.2, 1], "goals": [[1, 1], [0, 2]], "goal_sd": 0.1, "combine": "max", "init": {"mean": 0.0, "sd": 1.0}}"#,
];
/// Replacements for numbers, brackets and names.
const PIECES: [&str; 16] = [
    "0",
    "-1",
    "1e308",
    "1e-320",
    "1e999",
    "null",
    "[]",
    "[1]",
    "{}",
    "\"\"",
    "3000000000",
    "0.5",
    "[",
    "}",
    ",",
    "dim",
];

/// Pseudo-random choices from a fixed seed.
struct Choice(u64);

impl Choice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    /// Replaces, inserts or removes words of the text.
    fn damage(&mut self, text: &str) -> String {
        let mut words: Vec<&str> = text.split_inclusive(&[' ', '[', ']', ',', ':', '{', '}'][..]).collect();
        for _ in 0..=self.below(2) {
            let at = self.below(words.len());
            match self.below(4) {
                0 => drop(words.remove(at)),
                1 => words.insert(at, PIECES[self.below(PIECES.len())]),
                _ => {
                    let end = words[at].find(&[' ', '[', ']', ',', ':', '{', '}'][..]).unwrap_or(words[at].len());
                    let (_, mark) = words[at].split_at(end);
                    words[at] = mark;
                    words.insert(at, PIECES[self.below(PIECES.len())]);
                }
            }
        }
        words.concat()
    }
}

#[test]
fn damaged_specs_are_refused_or_work() {
    let mut choice = Choice(5);
    let (mut accepted, mut refused) = (0, 0);
    for original in SPECS {
        assert!(Spec::from_json(original).unwrap().target().is_ok(), "{original}");
        for _ in 0..2000 {
            let text = choice.damage(original);
            let target = Spec::from_json(&text).and_then(|spec| spec.target());
            match target {
                Ok(target) if target.dim() <= 1000 => {
                    let _ = log_p_at(&target, &vec![0.1; target.dim()]);
                    accepted += 1;
                }
                Ok(_) => accepted += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 1000, "{accepted} accepted, {refused} refused: weak damage");
}
