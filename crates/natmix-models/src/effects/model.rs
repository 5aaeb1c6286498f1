//! The target: coordinates, parameters in the units of the data, and their names.
//!
//! Coordinates are, in this order: the coefficients in the units of the fit; logarithms of the family's positive parameters, or the
//! first cut point and the logarithms of the gaps; and for every grouping the logarithms of its standard deviations, partial
//! correlations (see the module `groups`), and the effects level by level. There is one parameter for each.

use super::auxiliary::Auxiliary;
use super::data::EffectsData;
use super::family::Family;
use super::groups::{Group, correlation_matrix};
use super::likelihood::Outcomes;
use super::prior_density::{PriorDensity, Support};
use super::statements::PriorStatement;
use super::units::Unit;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Error, Scratch};

/// Standard deviation of a coefficient in the units of the fit.
const PRIOR_SD: f64 = 2.5;
/// The same of the intercept.
const INTERCEPT_SD: f64 = 10.0 * PRIOR_SD;
/// Shape of the prior of correlations: small ones are slightly more likely.
const LKJ_SHAPE: f64 = 2.0;

/// A regression with its data. See the [module page](super).
#[derive(Clone, Debug)]
pub struct EffectsModel {
    pub(super) family: Family,
    pub(super) rows: usize,
    /// Names of the coefficients.
    names: Vec<String>,
    /// Which column is the intercept.
    intercept: Option<usize>,
    /// Columns in the units of the fit, row by row.
    pub(super) x: Vec<f64>,
    columns: Vec<Unit>,
    outcome: Unit,
    pub(super) outcomes: Outcomes,
    pub(super) offset: Option<Vec<f64>>,
    /// Priors of the coefficients in the units of the fit.
    pub(super) priors: Vec<PriorDensity>,
    pub(super) auxiliary: Auxiliary,
    pub(super) groups: Vec<Group>,
    pub(super) dim: usize,
}

impl EffectsModel {
    /// From data and the priors that differ from the defaults.
    pub fn new(family: Family, mut data: EffectsData, priors: &[PriorStatement]) -> Result<Self, Error> {
        data.check(family)?;
        let rows = data.rows();
        let mut intercept = constant_column(&data.x, data.names.len(), rows);
        if let (Family::Ordinal { .. }, Some(ones)) = (family, intercept) {
            // Cut points take the place of an intercept.
            let width = data.names.len();
            let mut at = 0..data.x.len();
            data.x.retain(|_| at.next().is_some_and(|at| at % width != ones));
            data.names.remove(ones);
            intercept = None;
        }
        let p = data.names.len();
        let centred = intercept.is_some() || family.cuts() > 0;
        let columns: Vec<Unit> = (0..p)
            .map(|j| match intercept {
                Some(ones) if j == ones => Unit::NONE,
                _ => Unit::of_column(data.x.iter().skip(j).step_by(p).copied(), centred),
            })
            .collect();
        for row in data.x.chunks_exact_mut(p.max(1)) {
            row.iter_mut().zip(&columns).for_each(|(x, unit)| *x = (*x - unit.centre) / unit.scale);
        }
        let outcome = Unit::of_outcome(family, &data, intercept.is_some());
        let outcomes = outcomes(family, &data, outcome);
        let auxiliary = Auxiliary::new(family, &data, &outcomes, outcome.scale);
        let mut groups = Vec::with_capacity(data.groupings.len());
        let mut first = p + auxiliary.dim();
        for grouping in data.groupings {
            let group = Group::new(grouping, first, PRIOR_SD, LKJ_SHAPE);
            first += group.dim();
            groups.push(group);
        }
        let priors_of = |j: usize| PriorDensity::Normal {
            mean: 0.0,
            sd: if intercept == Some(j) { INTERCEPT_SD } else { PRIOR_SD },
        };
        let offset = data.offset.map(|offset| offset.iter().map(|x| x / outcome.scale).collect());
        let mut model = Self {
            family,
            rows,
            priors: (0..p).map(priors_of).collect(),
            names: data.names,
            intercept,
            x: data.x,
            columns,
            outcome,
            outcomes,
            offset,
            auxiliary,
            groups,
            dim: first,
        };
        if model.dim == 0 {
            return Err(Error::InvalidInput("there is nothing to infer: neither columns nor groupings".into()));
        }
        priors.iter().try_for_each(|statement| model.set_prior(statement))?;
        if !model.groups.is_empty() {
            model.choose_centred()?;
        }
        Ok(model)
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Centre and scale of the outcome; of its logarithm for the gamma and the survival family.
    pub(super) fn outcome_unit(&self) -> Unit {
        self.outcome
    }

    /// Factor from a coefficient in the units of the fit to the units of the data.
    fn unit_of(&self, j: usize) -> f64 {
        self.outcome.scale / self.columns[j].scale
    }

    /// What is added to the intercept's coordinate.
    fn shift_of(&self, j: usize) -> f64 {
        if self.intercept == Some(j) { self.outcome.centre } else { 0.0 }
    }

    /// Units of a positive parameter of the family.
    fn unit_of_auxiliary(&self, name: &str) -> f64 {
        if name == "sigma" { self.outcome.scale } else { 1.0 }
    }

    fn set_prior(&mut self, PriorStatement { parameter, prior }: &PriorStatement) -> Result<(), Error> {
        if let Some(j) = self.names.iter().position(|name| name == parameter) {
            prior.check_for(parameter, Support::Real)?;
            let unit = self.unit_of(j);
            self.priors[j] = prior.rescaled_for(parameter, 1.0 / unit, -self.shift_of(j) / unit)?;
            return Ok(());
        }
        if let Some(k) = self.family.auxiliary().iter().position(|(name, _)| name == parameter) {
            prior.check_for(parameter, Support::Positive)?;
            let factor = 1.0 / self.unit_of_auxiliary(parameter);
            self.auxiliary.priors[k] = prior.rescaled_for(parameter, factor, 0.0)?;
            return Ok(());
        }
        if parameter == "cut" && self.family.cuts() > 0 {
            prior.check_for(parameter, Support::Real)?;
            self.auxiliary.cut_prior = *prior;
            return Ok(());
        }
        let unit = self.outcome.scale;
        let mut found = false;
        for group in &mut self.groups {
            let name = group.data.name.clone();
            if *parameter == format!("cor({name})") && group.correlations() > 0 {
                prior.check_for(parameter, Support::Correlations)?;
                if let PriorDensity::Lkj { shape } = prior {
                    group.set_lkj(*shape);
                    found = true;
                }
            }
            for k in 0..group.q {
                if *parameter == format!("sd({name})") || *parameter == group.sd_name(k) {
                    prior.check_for(parameter, Support::Positive)?;
                    group.sd_priors[k] = prior.rescaled_for(parameter, group.scale[k] / unit, 0.0)?;
                    found = true;
                }
            }
        }
        if found {
            return Ok(());
        }
        let known: Vec<String> = self.priors().into_iter().map(|statement| statement.parameter).collect();
        let problem = format!("prior of `{parameter}`: there is no such parameter (there are {})", known.join(", "));
        Err(Error::InvalidInput(problem))
    }

    /// All priors in the units of the data. That of the intercept is for the predictor where every column has its mean.
    pub fn priors(&self) -> Vec<PriorStatement> {
        let mut statements = Vec::new();
        let mut push = |parameter: String, prior| statements.push(PriorStatement { parameter, prior });
        for (j, (name, prior)) in self.names.iter().zip(&self.priors).enumerate() {
            push(name.clone(), prior.rescaled(self.unit_of(j), self.shift_of(j)));
        }
        for ((name, _), prior) in self.family.auxiliary().iter().zip(&self.auxiliary.priors) {
            push((*name).into(), prior.rescaled(self.unit_of_auxiliary(name), 0.0));
        }
        if self.family.cuts() > 0 {
            push("cut".into(), self.auxiliary.cut_prior);
        }
        for group in &self.groups {
            for (k, prior) in group.sd_priors.iter().enumerate() {
                push(group.sd_name(k), prior.rescaled(self.outcome.scale / group.scale[k], 0.0));
            }
            if group.correlations() > 0 {
                push(format!("cor({})", group.data.name), PriorDensity::Lkj { shape: group.lkj() });
            }
        }
        statements
    }
}

/// The first column whose entries are all one.
fn constant_column(x: &[f64], width: usize, rows: usize) -> Option<usize> {
    (0..width).find(|j| (0..rows).all(|row| x[row * width + j] == 1.0))
}

fn outcomes(family: Family, data: &EffectsData, unit: Unit) -> Outcomes {
    let rows = data.rows();
    let y = data.y.iter().map(|y| match family {
        Family::Linear | Family::Robust => (y - unit.centre) / unit.scale,
        Family::Gamma | Family::Survival => y.ln() - unit.centre,
        _ => *y,
    });
    let other = match family {
        Family::Logistic => data.y.iter().map(|y| 1.0 - y).collect(),
        Family::Binomial => {
            let trials = data.trials.as_deref().unwrap_or_default();
            trials.iter().zip(&data.y).map(|(n, y)| n - y).collect()
        }
        Family::Survival => match &data.event {
            Some(event) => event.iter().map(|seen| f64::from(u8::from(*seen))).collect(),
            None => vec![1.0; rows],
        },
        _ => Vec::new(),
    };
    Outcomes { y: y.collect(), other, weights: data.weights.clone().unwrap_or_default() }
}

impl Target for EffectsModel {
    fn dim(&self) -> usize {
        self.dim
    }

    fn is_log_concave(&self) -> bool {
        let priors = self.priors.iter().all(|prior| prior.is_log_concave());
        self.groups.is_empty() && self.family.is_log_concave() && priors
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn num_rows(&self) -> Option<usize> {
        Some(self.rows)
    }

    fn curvatures(&self) -> &[(Curvature, CurvatureShape)] {
        &[(Curvature::Exact, CurvatureShape::Full), (Curvature::Exact, CurvatureShape::Diag)]
    }

    fn parameter_names(&self) -> Vec<String> {
        let mut names = self.names.clone();
        names.extend(self.auxiliary.names());
        self.groups.iter().for_each(|group| group.push_names(&mut names));
        names
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
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
        for group in &self.groups {
            group.to_parameters(&z[group.first..], self.outcome.scale, &mut parameters[group.first..]);
        }
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.evaluate(rows, z, out, scratch);
        Ok(())
    }
}

impl Group {
    /// Name of the standard deviation of column `k`.
    pub(super) fn sd_name(&self, k: usize) -> String {
        format!("sd({}, {})", self.data.name, self.data.columns[k])
    }

    fn push_names(&self, names: &mut Vec<String>) {
        let (name, columns) = (&self.data.name, &self.data.columns);
        names.extend((0..self.q).map(|k| self.sd_name(k)));
        if self.correlations() > 0 {
            for i in 1..self.q {
                names.extend((0..i).map(|j| format!("cor({name}, {}, {})", columns[j], columns[i])));
            }
        }
        for level in &self.data.levels {
            names.extend(columns.iter().map(|column| format!("{name}[{level}, {column}]")));
        }
    }

    /// From the coordinates of the group to its parameters, in the units of the data, where outcomes have this `unit`.
    fn to_parameters(&self, z: &[f64], unit: f64, parameters: &mut [f64]) {
        let q = self.q;
        for k in 0..q {
            parameters[k] = unit / self.scale[k] * z[k].exp();
        }
        let (first, correlated) = (q + self.correlations(), self.correlations() > 0);
        let matrix = correlation_matrix(if correlated { q } else { 0 }, &z[q..first]);
        for i in 1..q {
            for j in (0..i).filter(|_| correlated) {
                parameters[q + i * (i - 1) / 2 + j] = matrix[i * q + j];
            }
        }
        self.effects_at(z, &mut parameters[first..first + self.effects()]);
        for (at, effect) in parameters[first..first + self.effects()].iter_mut().enumerate() {
            *effect *= unit / self.scale[at % q];
        }
    }
}
