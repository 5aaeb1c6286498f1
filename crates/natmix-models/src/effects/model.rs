//! The target: data in the units of the fit, and priors. What its coordinates stand for: see `layout`.

use super::auxiliary::Auxiliary;
use super::data::EffectsData;
use super::family::Family;
use super::groups::Group;
use super::layout::{BaseLayout, EffectsLayout};
use super::likelihood::Outcomes;
use super::prior_density::{PriorDensity, Support};
use super::series::Series;
use super::statements::PriorStatement;
use super::units::Unit;
use crate::ranks::Sharing;
use natmix::target::{Curvature, CurvatureShape, EvalOut, Points, Rows, Target, TargetError};
use natmix::{Error, Scratch};
use std::sync::Arc;

/// Standard deviation of a coefficient in the units of the fit.
const PRIOR_SD: f64 = 2.5;
/// The same of the intercept.
const INTERCEPT_SD: f64 = 10.0 * PRIOR_SD;
/// Shape of the prior of correlations: small ones are slightly more likely.
const LKJ_SHAPE: f64 = 2.0;

/// A regression with its data. See the [module page](super).
#[derive(Clone, Debug)]
pub struct EffectsModel {
    pub(super) base: BaseLayout,
    /// All rows, wherever they are.
    pub(super) rows: usize,
    /// Columns in the units of the fit, row by row.
    pub(super) x: Vec<f64>,
    pub(super) outcomes: Outcomes,
    pub(super) offset: Option<Vec<f64>>,
    /// Priors of the coefficients in the units of the fit.
    pub(super) priors: Vec<PriorDensity>,
    pub(super) auxiliary: Auxiliary,
    pub(super) groups: Vec<Group>,
    pub(super) dim: usize,
    /// Where rows that are sorted were before.
    pub(super) order: Option<Vec<u32>>,
    /// What stands for the rows of a large table.
    pub(super) series: Option<Arc<Series>>,
    /// How processes share the rows, if they do; what is stored by row is then of those of this process.
    pub(super) sharing: Option<Sharing>,
}

impl EffectsModel {
    /// From data and the priors that differ from the defaults.
    pub fn new(family: Family, mut data: EffectsData, priors: &[PriorStatement]) -> Result<Self, Error> {
        data.check(family)?;
        let order = data.sort_by_levels();
        let rows = data.rows();
        let mut intercept = data.constant_column();
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
            first += group.shape.dim();
            groups.push(group);
        }
        let priors_of = |j: usize| PriorDensity::Normal {
            mean: 0.0,
            sd: if intercept == Some(j) { INTERCEPT_SD } else { PRIOR_SD },
        };
        let offset = data.offset.map(|offset| offset.iter().map(|x| x / outcome.scale).collect());
        let mut model = Self {
            priors: (0..p).map(priors_of).collect(),
            base: BaseLayout { family, names: data.names, intercept, columns, outcome },
            rows,
            x: data.x,
            outcomes,
            offset,
            auxiliary,
            groups,
            dim: first,
            order,
            series: None,
            sharing: None,
        };
        if model.dim == 0 {
            return Err(Error::InvalidInput("there is nothing to infer: neither columns nor groupings".into()));
        }
        priors.iter().try_for_each(|statement| model.set_prior(statement))?;
        if !model.groups.is_empty() {
            model.choose_centred()?;
            model.choose_around();
        }
        model.series = Series::of(&model).map(Arc::new);
        Ok(model)
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.base.family
    }

    /// What its coordinates stand for.
    pub fn layout(&self) -> EffectsLayout {
        let groups = self.groups.iter().map(|group| group.shape.clone()).collect();
        EffectsLayout { base: self.base.clone(), groups }
    }

    fn set_prior(&mut self, PriorStatement { parameter, prior }: &PriorStatement) -> Result<(), Error> {
        if let Some(j) = self.base.names.iter().position(|name| name == parameter) {
            prior.check_for(parameter, Support::Real)?;
            let unit = self.base.unit_of(j);
            self.priors[j] = prior.rescaled_for(parameter, 1.0 / unit, -self.base.shift_of(j) / unit)?;
            return Ok(());
        }
        if let Some(k) = self.base.family.auxiliary().iter().position(|(name, _)| name == parameter) {
            prior.check_for(parameter, Support::Positive)?;
            let factor = 1.0 / self.base.unit_of_auxiliary(parameter);
            self.auxiliary.priors[k] = prior.rescaled_for(parameter, factor, 0.0)?;
            return Ok(());
        }
        if parameter == "cut" && self.base.family.cuts() > 0 {
            prior.check_for(parameter, Support::Real)?;
            self.auxiliary.cut_prior = *prior;
            return Ok(());
        }
        let unit = self.base.outcome.scale;
        let mut found = false;
        for group in &mut self.groups {
            let name = group.shape.name.clone();
            if *parameter == format!("cor({name})") && group.shape.correlations() > 0 {
                prior.check_for(parameter, Support::Correlations)?;
                if let PriorDensity::Lkj { shape } = prior {
                    group.set_lkj(*shape);
                    found = true;
                }
            }
            for k in 0..group.sd_priors.len() {
                if *parameter == format!("sd({name})") || *parameter == group.shape.sd_name(k) {
                    prior.check_for(parameter, Support::Positive)?;
                    group.sd_priors[k] = prior.rescaled_for(parameter, group.shape.scale[k] / unit, 0.0)?;
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
        for (j, (name, prior)) in self.base.names.iter().zip(&self.priors).enumerate() {
            push(name.clone(), prior.rescaled(self.base.unit_of(j), self.base.shift_of(j)));
        }
        for ((name, _), prior) in self.base.family.auxiliary().iter().zip(&self.auxiliary.priors) {
            push((*name).into(), prior.rescaled(self.base.unit_of_auxiliary(name), 0.0));
        }
        if self.base.family.cuts() > 0 {
            push("cut".into(), self.auxiliary.cut_prior);
        }
        for group in &self.groups {
            for (k, prior) in group.sd_priors.iter().enumerate() {
                push(group.shape.sd_name(k), prior.rescaled(self.base.outcome.scale / group.shape.scale[k], 0.0));
            }
            if group.shape.correlations() > 0 {
                push(format!("cor({})", group.shape.name), PriorDensity::Lkj { shape: group.lkj() });
            }
        }
        statements
    }
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
        self.groups.is_empty() && self.base.family.is_log_concave() && priors
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
        self.base.parameter_names(self.groups.iter().map(|group| &group.shape))
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.base.to_parameters(self.groups.iter().map(|group| &group.shape), z, parameters);
    }

    fn eval(&self, rows: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        self.evaluate(rows, z, out, scratch)
    }
}
