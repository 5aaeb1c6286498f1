//! The names nearest to one that does not exist: what a person may have meant.

use super::words::shown;

/// Most names that are suggested.
const MOST: usize = 3;

/// The candidates that are most like `name`: they begin alike, or differ by a few typing errors.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    /// Longer names are cut: the work grows with the square of the length.
    const LONGEST: usize = 60;
    let plain = |name: &str| -> Vec<char> {
        name.trim().to_lowercase().replace([' ', '_', '.'], "-").chars().take(LONGEST).collect()
    };
    let wanted = plain(name);
    // A third of the letters may be wrong.
    let most = (wanted.len() / 3).max(1);
    let distance = |candidate: &str| {
        let other = plain(candidate);
        let begins = wanted.len() > 2 && (other.starts_with(&wanted) || wanted.starts_with(&other) && other.len() > 2);
        let distance = typing_errors(&wanted, &other);
        (distance < other.len() || begins).then(|| if begins { distance.min(most) } else { distance })
    };
    let near = candidates.into_iter().filter_map(|candidate| Some((distance(candidate)?, candidate)));
    let near: Vec<(usize, &str)> = near.filter(|(distance, _)| *distance <= most).collect();
    let least = near.iter().map(|(distance, _)| *distance).min();
    let nearest = near.iter().filter(|(distance, _)| Some(*distance) == least);
    nearest.take(MOST).map(|(_, candidate)| candidate.to_string()).collect()
}

/// A question after a sentence about a name that does not exist; empty if none is near it.
pub(crate) fn did_you_mean(nearest: &[String]) -> String {
    let names: Vec<String> = nearest.iter().map(|name| format!("`{}`", shown(name.as_bytes()))).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

/// How many letters must be typed, left out, changed or swapped with their neighbour to make `a` into `b`.
fn typing_errors(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_found() {
        let columns = ["age", "income", "Region", "x1", "x2"];
        assert_eq!(nearest("agee", columns), ["age"]);
        assert_eq!(nearest("icnome", columns), ["income"]);
        assert_eq!(nearest("region", columns), ["Region"]);
        assert_eq!(nearest("x3", columns), ["x1", "x2"]);
        assert_eq!(nearest("weight", columns), [""; 0]);
        assert_eq!(nearest("", columns), [""; 0]);
    }

    #[test]
    fn names_that_are_nearly_right_are_suggested() {
        let known = ["age", "weight", "Blood Pressure", "income_2019", "income_2020"];
        for (name, expected) in [
            ("wieght", "; did you mean `weight`?"),
            ("Age", "; did you mean `age`?"),
            ("blood_pressure", "; did you mean `Blood Pressure`?"),
            ("income", "; did you mean `income_2019` or `income_2020`?"),
            ("y", ""),
            ("colour", ""),
        ] {
            assert_eq!(did_you_mean(&nearest(name, known)), expected, "{name}");
        }
    }
}
