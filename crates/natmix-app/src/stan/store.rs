//! The variables of a Stan program in `draws.zarr`, in their shapes.

use crate::stan::StanDraws;
use crate::zarr;
use natmix_stan::names::parts_of_shown;
use std::collections::BTreeMap;
use std::path::Path;

/// The group of a variable, as ArviZ has them: log likelihoods and predictions are recognised by the names that are usual for
/// them.
fn group_of(name: &str, generated: bool) -> &'static str {
    match name {
        "log_lik" | "log_likelihood" if generated => "log_likelihood",
        _ if generated && ["_rep", "_pred", "_tilde"].iter().any(|ending| name.ends_with(ending)) => {
            "posterior_predictive"
        }
        _ => "posterior",
    }
}

/// The groups of a program's variables; `posterior` is the first.
pub(crate) fn groups(variables: &StanDraws) -> impl Iterator<Item = &'static str> {
    let used: Vec<&str> = variables.variables().map(|(one, generated)| group_of(&one.name, generated)).collect();
    ["posterior", "log_likelihood", "posterior_predictive"]
        .into_iter()
        .filter(move |group| *group == "posterior" || used.contains(group))
}

/// Adds the variables of a Stan program in their shapes.
pub(crate) fn add_variables(store: &mut zarr::Store, draws: &StanDraws, (chains, each): (usize, usize)) {
    let p = draws.names.len();
    for (variable, generated) in draws.variables() {
        let values: Vec<f64> =
            draws.values.chunks_exact(p).flat_map(|row| variable.columns.iter().map(|column| row[*column])).collect();
        let own: Vec<String> = (0..variable.shape.len()).map(|dim| format!("{}_dim_{dim}", variable.name)).collect();
        let dims: Vec<&str> = ["chain", "draw"].into_iter().chain(own.iter().map(String::as_str)).collect();
        let shape = [&[chains, each][..], &variable.shape].concat();
        let group = group_of(&variable.name, generated);
        store.array(group, &variable.name, &dims, &shape, zarr::ZarrValues::Float(&values));
    }
}

/// The variables of a Stan program, read from a store as they are needed.
pub(crate) struct ShapedVariables<'a> {
    store: &'a Path,
    read: BTreeMap<String, (Vec<usize>, Vec<f64>)>,
}

impl<'a> ShapedVariables<'a> {
    /// Of a store.
    pub fn new(store: &'a Path) -> Self {
        Self { store, read: BTreeMap::new() }
    }

    /// The values named `theta[2,1]`, if there is a variable `theta` in one of these folders.
    pub fn part(&mut self, name: &str, folders: &BTreeMap<String, Vec<String>>) -> Option<Vec<f64>> {
        let (variable, position) = parts_of_shown(name);
        if position.is_empty() {
            return None;
        }
        if !self.read.contains_key(&variable) {
            let folder = folders.get(&variable)?.first()?;
            self.read.insert(variable.clone(), zarr::read_array(self.store, "posterior", folder).ok()?);
        }
        let (shape, values) = self.read.get(&variable)?;
        let lengths = shape.get(2..)?;
        let inside = |(index, length): (&usize, &usize)| (1..=*length).contains(index);
        if lengths.len() != position.len() || !position.iter().zip(lengths).all(inside) {
            return None;
        }
        let at = position.iter().zip(lengths).fold(0, |at, (index, length)| at * length + index - 1);
        Some(values.iter().skip(at).step_by(lengths.iter().product()).copied().collect())
    }
}
