//! What the coordinates of a fit stand for: the names of its parameters, and their values in the units of the data. Kept with the
//! posterior.
//!
//! Coordinates are, in this order: the coefficients in the units of the fit; logarithms of the family's positive parameters, or the
//! first cut point and the logarithms of the gaps; and the groupings, one after the other (see `group_shape`).

use super::family::Family;
use super::group_shape::GroupShape;
use super::units::Unit;
use crate::grouping::GroupCoefficients;
use serde::{Deserialize, Serialize};

/// The coefficients, and the family with its own parameters: what comes before the groupings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BaseLayout {
    pub family: Family,
    /// Names of the coefficients.
    pub names: Vec<String>,
    /// Which column is the intercept.
    pub intercept: Option<usize>,
    pub columns: Vec<Unit>,
    pub outcome: Unit,
}

impl BaseLayout {
    /// Number of coordinates.
    pub fn dim(&self) -> usize {
        self.names.len() + self.family.parameters()
    }

    /// Factor from a coefficient in the units of the fit to the units of the data.
    pub fn unit_of(&self, j: usize) -> f64 {
        self.outcome.scale / self.columns[j].scale
    }

    /// What is added to the intercept's coordinate.
    pub fn shift_of(&self, j: usize) -> f64 {
        if self.intercept == Some(j) { self.outcome.centre } else { 0.0 }
    }

    /// Units of a positive parameter of the family.
    pub fn unit_of_auxiliary(&self, name: &str) -> f64 {
        if name == "sigma" { self.outcome.scale } else { 1.0 }
    }

    /// Names of its parameters and of those of the groupings.
    pub fn parameter_names<'a>(&self, groups: impl Iterator<Item = &'a GroupShape>) -> Vec<String> {
        let mut names = self.names.clone();
        names.extend(self.family.auxiliary().iter().map(|(name, _)| (*name).to_owned()));
        names.extend((1..=self.family.cuts()).map(|k| format!("cut[{k}]")));
        groups.for_each(|group| group.push_names(&mut names));
        names
    }

    /// Writes the parameters that belong to coordinates `z`, those of the groupings included.
    pub fn to_parameters<'a>(&self, groups: impl Iterator<Item = &'a GroupShape>, z: &[f64], parameters: &mut [f64]) {
        let p = self.names.len();
        // What centring the columns has taken from the predictor.
        let mut taken = 0.0;
        for j in 0..p {
            parameters[j] = self.shift_of(j) + self.unit_of(j) * z[j];
            taken += parameters[j] * self.columns[j].centre;
        }
        if let Some(ones) = self.intercept {
            parameters[ones] -= taken;
        }
        for (k, (name, _)) in self.family.auxiliary().iter().enumerate() {
            parameters[p + k] = self.unit_of_auxiliary(name) * z[p + k].exp();
        }
        let mut cut = 0.0;
        for k in 0..self.family.cuts() {
            cut = if k == 0 { z[p] } else { cut + z[p + k].exp() };
            parameters[p + k] = cut + taken;
        }
        let mut first = self.dim();
        for group in groups {
            group.to_parameters(z, &z[first..], self.outcome.scale, &mut parameters[first..]);
            first += group.dim();
        }
    }
}

/// What the coordinates of a fit stand for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectsLayout {
    pub(super) base: BaseLayout,
    pub(super) groups: Vec<GroupShape>,
}

/// Where the parameters of a grouping are.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupParameters {
    /// What the formula calls it.
    pub name: String,
    /// Names of the levels.
    pub levels: Vec<String>,
    /// Names of the columns that vary.
    pub columns: Vec<String>,
    /// How the coefficients of a level are distributed.
    pub coefficients: GroupCoefficients,
    /// Index of the first standard deviation.
    pub first_sd: usize,
    /// Index of the first effect; they are stored level by level.
    pub first_effect: usize,
}

impl EffectsLayout {
    /// Number of coordinates, and of parameters.
    pub fn dim(&self) -> usize {
        self.base.dim() + self.groups.iter().map(GroupShape::dim).sum::<usize>()
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.base.family
    }

    /// Names of the coefficients that all rows share.
    pub fn coefficient_names(&self) -> &[String] {
        &self.base.names
    }

    /// What each column is divided by for the fit: its standard deviation, or 1 for columns of zeros and ones.
    pub fn column_scales(&self) -> impl Iterator<Item = f64> {
        self.base.columns.iter().map(|unit| unit.scale)
    }

    /// Which of them is the intercept.
    pub fn intercept(&self) -> Option<usize> {
        self.base.intercept
    }

    /// The unit of the linear predictor: that of the outcome for the linear and the robust family, and 1 for others.
    pub(super) fn predictor_scale(&self) -> f64 {
        self.base.outcome.scale
    }

    /// Names of all parameters.
    pub fn parameter_names(&self) -> Vec<String> {
        self.base.parameter_names(self.groups.iter())
    }

    /// Writes the parameters, in the units of the data, that belong to coordinates `z`.
    pub fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.base.to_parameters(self.groups.iter(), z, parameters);
    }

    /// Where the parameters of each grouping are.
    pub fn groupings(&self) -> Vec<GroupParameters> {
        let mut first = self.base.dim();
        let place = |group: &GroupShape| {
            let first_sd = first;
            first += group.dim();
            GroupParameters {
                name: group.name.clone(),
                levels: group.levels.clone(),
                columns: group.columns.clone(),
                coefficients: group.coefficients,
                first_sd,
                first_effect: first_sd + group.scales(),
            }
        };
        self.groups.iter().map(place).collect()
    }

    /// Whether sizes match and numbers can be used, for a layout that was read from a file.
    pub fn is_sound(&self) -> bool {
        let base = &self.base;
        let fine = |unit: &Unit| unit.centre.is_finite() && unit.scale.is_normal();
        base.columns.len() == base.names.len()
            && base.intercept.is_none_or(|ones| ones < base.names.len())
            && base.columns.iter().chain([&base.outcome]).all(fine)
            && self.groups.iter().all(|group| group.is_sound(base.names.len()))
    }
}
