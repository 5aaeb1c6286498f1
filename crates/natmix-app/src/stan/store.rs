//! The variables of a Stan program in `draws.zarr`, in their shapes.

use crate::Error;
use crate::stan::{GroupedVariable, StanDraws, StanMemory, grouped};
use crate::zarr;
use natmix_stan::names::parts_of_shown;
use std::collections::BTreeMap;
use std::path::Path;

/// The groups, in the order in which they are stored.
const GROUPS: [&str; 3] = ["posterior", "log_likelihood", "posterior_predictive"];

/// The groups of a program's variables; `posterior` is the first.
pub(crate) fn groups(draws: &StanDraws) -> impl Iterator<Item = &'static str> {
    let used: Vec<&str> = draws.variables().map(|one| one.group).collect();
    GROUPS.into_iter().filter(move |group| *group == GROUPS[0] || used.contains(group))
}

/// Adds the variables of a Stan program in their shapes.
pub(crate) fn add_variables(store: &mut zarr::Store, draws: &StanDraws, (chains, each): (usize, usize)) {
    for GroupedVariable { variable, group } in draws.variables() {
        let values = draws.values_of(&variable);
        let own: Vec<String> = (0..variable.shape.len()).map(|dim| format!("{}_dim_{dim}", variable.name)).collect();
        let dims: Vec<&str> = ["chain", "draw"].into_iter().chain(own.iter().map(String::as_str)).collect();
        let shape = [&[chains, each][..], &variable.shape].concat();
        store.array(group, &variable.name, &dims, &shape, zarr::ZarrValues::Float(&values));
    }
}

/// Reads the draws of all variables, or of those that are no generated quantities where only these are stored.
pub(crate) fn read_variables(store: &Path, memory: &StanMemory, draws: usize) -> Result<StanDraws, Error> {
    let folders: BTreeMap<&str, BTreeMap<String, Vec<String>>> =
        GROUPS.into_iter().map(|group| Ok((group, zarr::folders(store, group)?))).collect::<Result<_, Error>>()?;
    let mut found = Vec::new();
    for one in grouped(&memory.names, memory.before_generated) {
        let of_group = folders.get(one.group).and_then(|folders| folders.get(&one.variable.name));
        let folder = of_group.and_then(|all| all.iter().find(|one| !zarr::COORDINATES.contains(&one.as_str())));
        found.push((one.variable, one.group, folder));
    }
    let all = found.iter().all(|(.., folder)| folder.is_some());
    let mut whole = StanDraws::of_values(memory, Vec::new(), all);
    let p = whole.names.len();
    whole.values = vec![f64::NAN; draws * p];
    for (variable, group, folder) in found {
        let (true, Some(folder)) = (variable.columns.iter().all(|column| *column < p), folder) else { continue };
        let (_, values) = zarr::read_array(store, group, folder)?;
        if values.len() != draws * variable.columns.len() {
            let problem = format!("has {} numbers for {draws} draws", values.len());
            return Err(
                natmix::Error::BadFile { file: store.join(group).join(folder).display().to_string(), problem }.into()
            );
        }
        for (row, values) in whole.values.chunks_exact_mut(p).zip(values.chunks_exact(variable.columns.len())) {
            variable.columns.iter().zip(values).for_each(|(column, value)| row[*column] = *value);
        }
    }
    Ok(whole)
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
