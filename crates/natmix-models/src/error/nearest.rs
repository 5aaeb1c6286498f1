//! The names nearest to one that does not exist: what a person may have meant.

/// Most names that are suggested.
const MOST: usize = 3;

/// The candidates that differ from `name` by a few typing errors, nearest first.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    /// Longer names are not compared: the work grows with the square of the length.
    const LONGEST: usize = 60;
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    let most = (wanted.len() / 3).max(1);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in candidates {
        let letters: Vec<char> = candidate.to_lowercase().chars().collect();
        if wanted.len().max(letters.len()) > LONGEST || wanted.len().abs_diff(letters.len()) > most {
            continue;
        }
        let distance = typing_errors(&wanted, &letters);
        if distance <= most && distance < letters.len() {
            found.push((distance, candidate));
        }
    }
    found.sort();
    found.iter().take(MOST).map(|(_, candidate)| candidate.to_string()).collect()
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
}
