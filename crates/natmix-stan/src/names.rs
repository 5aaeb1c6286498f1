//! From the names of values to variables with shapes.
//!
//! Stan names every value by its variable and its position, separated by dots: `theta.1`, `Sigma.2.1`. Tools show these as
//! `theta[1]` and `Sigma[2,1]`. Parts of tuples follow a colon (`pair:1.3`), and those of complex numbers a last dot (`z.real`).
//! Values are listed with the first index running fastest; arrays elsewhere have the last one fastest.
//!
//! ```
//! use natmix_stan::names::{shown, variables};
//! let names: Vec<String> = ["mu", "S.1.1", "S.2.1", "S.1.2", "S.2.2"].map(String::from).to_vec();
//! assert_eq!(shown("S.2.1"), "S[2,1]");
//! let found = variables(&names);
//! assert_eq!((found[0].name.as_str(), found[0].shape.len()), ("mu", 0));
//! assert_eq!((found[1].shape.as_slice(), found[1].columns.as_slice()), (&[2, 2][..], &[1, 3, 2, 4][..]));
//! ```

use serde::{Deserialize, Serialize};

/// A variable of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Lengths along its dimensions; none for a scalar.
    pub shape: Vec<usize>,
    /// Where its values are among all values, the last index running fastest.
    pub columns: Vec<usize>,
}

/// A name as tools show it: `Sigma[2,1]` for `Sigma.2.1`, and `pair.1[3]` for `pair:1.3`.
pub fn shown(name: &str) -> String {
    let part = |part: &str| match part.split_once('.') {
        Some((variable, position)) => format!("{variable}[{}]", position.replace('.', ",")),
        None => part.to_owned(),
    };
    name.split(':').map(part).collect::<Vec<_>>().join(".")
}

/// The variable of a value, and the value's position in it, counted from one: of a name as tools show it.
///
/// ```
/// use natmix_stan::names::{parts_of_shown, shown};
/// assert_eq!(parts_of_shown(&shown("S.2.1")), ("S".to_owned(), vec![2, 1]));
/// assert_eq!(parts_of_shown(&shown("t.2:1.3")), ("t.1".to_owned(), vec![2, 3]));
/// assert_eq!(parts_of_shown(&shown("z.4.real")), ("z.real".to_owned(), vec![4]));
/// ```
pub fn parts_of_shown(name: &str) -> (String, Vec<usize>) {
    let (mut variable, mut position) = (String::new(), Vec::new());
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        variable.push_str(before);
        let (within, behind) = after.split_once(']').unwrap_or((after, ""));
        for piece in within.split(',') {
            match piece.parse() {
                Ok(index) => position.push(index),
                Err(_) => variable.extend([".", piece]),
            }
        }
        rest = behind;
    }
    variable.push_str(rest);
    (variable, position)
}

/// The same of a name as in CmdStan's files.
fn parts(name: &str) -> (String, Vec<usize>) {
    let mut position = Vec::new();
    let mut variable = String::new();
    for (i, part) in name.split(':').enumerate() {
        if i > 0 {
            variable.push('.');
        }
        for (j, piece) in part.split('.').enumerate() {
            match piece.parse() {
                Ok(index) if j > 0 => position.push(index),
                _ if j > 0 => {
                    variable.push('.');
                    variable.push_str(piece);
                }
                _ => variable.push_str(piece),
            }
        }
    }
    (variable, position)
}

/// The variables of values with these names, in the order in which they come first.
pub fn variables(names: &[String]) -> Vec<Variable> {
    struct Found {
        name: String,
        values: Vec<(Vec<usize>, usize)>,
    }
    let mut found: Vec<Found> = Vec::new();
    for (column, name) in names.iter().enumerate() {
        let (name, position) = parts(name);
        // Values of a variable follow one another, but for parts of tuples and of complex numbers.
        match found.iter_mut().rev().find(|known| known.name == name) {
            Some(known) => known.values.push((position, column)),
            None => found.push(Found { name, values: vec![(position, column)] }),
        }
    }
    let whole = |Found { name, mut values }: Found| {
        values.sort();
        let dims = values.iter().map(|(position, _)| position.len()).max().unwrap_or(0);
        let longest = |dim: usize| values.iter().filter_map(|(position, _)| position.get(dim)).max().copied();
        let shape: Vec<usize> = (0..dims).map(|dim| longest(dim).unwrap_or(0)).collect();
        let columns: Vec<usize> = values.into_iter().map(|(_, column)| column).collect();
        // What is no full array is listed value by value.
        let shape = if shape.iter().product::<usize>() == columns.len() { shape } else { vec![columns.len()] };
        Variable { name, shape, columns }
    };
    found.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_shown_as_in_other_tools() {
        let cases =
            [("mu", "mu"), ("a.1", "a[1]"), ("a.10.2.3", "a[10,2,3]"), ("z.1.real", "z[1,real]"), ("t:2", "t.2")];
        for (name, expected) in cases.into_iter().chain([("t:1.3", "t.1[3]"), ("t.2:1.3", "t[2].1[3]")]) {
            assert_eq!(shown(name), expected);
        }
    }

    #[test]
    fn arrays_get_their_shapes_and_order() {
        let all = names(&[
            "x.1", "x.2", "a.1.1.1", "a.2.1.1", "a.1.2.1", "a.2.2.1", "a.1.1.2", "a.2.1.2", "a.1.2.2", "a.2.2.2",
        ]);
        let found = variables(&all);
        assert_eq!(found[0], Variable { name: "x".into(), shape: vec![2], columns: vec![0, 1] });
        assert_eq!(found[1].shape, [2, 2, 2]);
        assert_eq!(found[1].columns, [2, 6, 4, 8, 3, 7, 5, 9]);
    }

    #[test]
    fn ten_comes_after_nine() {
        let all: Vec<String> = (1..=12).map(|i| format!("x.{i}")).collect();
        assert_eq!(variables(&all)[0].columns, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_tuples_and_complex_numbers_are_variables() {
        let all = names(&["z.1.real", "z.1.imag", "z.2.real", "z.2.imag", "t.1:1", "t.1:2.1", "t.2:1", "t.2:2.1"]);
        let found: Vec<(String, Vec<usize>)> = variables(&all).into_iter().map(|v| (v.name, v.shape)).collect();
        let expected = [("z.real", vec![2]), ("z.imag", vec![2]), ("t.1", vec![2]), ("t.2", vec![2, 1])];
        assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
    }
}
