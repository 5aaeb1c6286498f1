//! A Stan model with its data, as a target.
//!
//! The engine works in the unconstrained space, on Stan's log density with the Jacobian of the transformation and with all
//! constants, so that the evidence is that of the program as written. Points that the program rejects cannot be evaluated: they
//! are NaN, and the reasons are collected.

use crate::Error;
use crate::library::{LoadedModel, StanLibrary, take_printed};
use crate::messages::{Message, Messages};
use crate::names::{Variable, shown, variables};
use natmix::Scratch;
use natmix::target::pointwise::eval_points;
use natmix::target::{EvalOut, Points, Rows, Target, TargetError};
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most transformed parameters that are reported and judged like parameters; more are only stored with the draws.
pub const MOST_TRANSFORMED: usize = 1000;
/// Draws that share a generator of random numbers: fixed, so that results do not depend on the number of threads.
const BLOCK: usize = 250;

/// A Stan model with its data.
pub struct StanModel {
    model: LoadedModel,
    messages: Messages,
    stop: Arc<AtomicBool>,
    /// Whether transformed parameters are among the reported ones.
    transformed: bool,
}

impl std::fmt::Debug for StanModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StanModel").field("library", self.model.library()).finish_non_exhaustive()
    }
}

impl StanModel {
    /// Gives data, the text of a JSON document or nothing, to a compiled model. The seed is for random numbers in the block
    /// `transformed data`.
    pub fn new(library: Arc<StanLibrary>, data: &str, seed: u64) -> Result<Self, Error> {
        let model = LoadedModel::new(library, data, short(seed)).map_err(Error::Data)?;
        if model.dim() == 0 {
            return Err(Error::NoParameters);
        }
        let transformed = model.count(true, false) - model.count(false, false) <= MOST_TRANSFORMED;
        Ok(Self { model, messages: Messages::new(), stop: Arc::default(), transformed })
    }

    /// While this is set, evaluations fail at once: the whole run then ends, without a result.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    fn go_on(&self) -> Result<(), String> {
        if self.stop.load(Ordering::Relaxed) { Err("it was stopped".to_owned()) } else { Ok(()) }
    }

    /// The library that it is of.
    pub fn library(&self) -> &StanLibrary {
        self.model.library()
    }

    /// The name of the program.
    pub fn name(&self) -> String {
        let name = self.model.name();
        name.strip_suffix("_model").unwrap_or(&name).to_owned()
    }

    /// How it was compiled.
    pub fn info(&self) -> String {
        self.model.info()
    }

    /// Names of all values, as in CmdStan's files (`theta.1`): parameters, transformed parameters, generated quantities.
    pub fn all_names(&self) -> Vec<String> {
        self.model.names(true, true)
    }

    /// How many of all values come before the generated quantities.
    pub fn before_generated(&self) -> usize {
        self.model.count(true, false)
    }

    /// How many of all values are parameters.
    pub fn parameters(&self) -> usize {
        self.model.count(false, false)
    }

    /// Names of the unconstrained coordinates.
    pub fn unconstrained_names(&self) -> Vec<String> {
        self.model.unconstrained_names()
    }

    /// All variables with their shapes.
    pub fn variables(&self) -> Vec<Variable> {
        variables(&self.all_names())
    }

    /// All values at points, one point after another. Random numbers of generated quantities follow from the seed. Where the
    /// generated quantities cannot be computed they are NaN, and the reason is collected.
    pub fn draws(&self, z: &[f64], seed: u64) -> Result<Vec<f64>, Error> {
        let (d, p) = (self.model.dim(), self.model.count(true, true));
        let mut values = vec![f64::NAN; z.len() / d * p];
        let blocks = z.par_chunks(BLOCK * d).zip(values.par_chunks_mut(BLOCK * p)).enumerate();
        blocks.try_for_each(|(block, (z, values))| {
            let mut rng = self.model.rng(short(seed_of(seed, block as u64))).map_err(Error::Failed)?;
            for (z, values) in z.chunks_exact(d).zip(values.chunks_exact_mut(p)) {
                self.go_on().map_err(Error::Failed)?;
                if let Err(message) = self.model.constrain(z, true, Some(&mut rng), values) {
                    self.messages.add(&message);
                    values.fill(f64::NAN);
                    self.constrain(z, true, &mut values[..self.before_generated()]);
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Parameters and transformed parameters at points, one point after another.
    pub fn draws_without_generated(&self, z: &[f64]) -> Result<Vec<f64>, Error> {
        self.constrained(z, true)
    }

    /// The reported parameters at points, one point after another.
    pub fn parameters_at(&self, z: &[f64]) -> Result<Vec<f64>, Error> {
        self.constrained(z, self.transformed)
    }

    fn constrained(&self, z: &[f64], transformed: bool) -> Result<Vec<f64>, Error> {
        let (d, p) = (self.model.dim(), self.model.count(transformed, false));
        let mut values = vec![f64::NAN; z.len() / d * p];
        z.par_chunks(d).zip(values.par_chunks_mut(p)).try_for_each(|(z, values)| {
            self.go_on().map_err(Error::Failed)?;
            self.constrain(z, transformed, values);
            Ok(())
        })?;
        Ok(values)
    }

    /// The point with the parameters in a JSON document.
    pub fn unconstrain(&self, json: &str) -> Result<Vec<f64>, Error> {
        let z = self.model.unconstrain_json(json).map_err(Error::Init)?;
        match z.iter().all(|x| x.is_finite()) {
            true => Ok(z),
            false => Err(Error::Init("a value is on the border of what its parameter may be".into())),
        }
    }

    /// The point with these parameters, in the order of their names.
    pub fn unconstrain_values(&self, parameters: &[f64]) -> Result<Vec<f64>, Error> {
        if parameters.len() != self.parameters() {
            let (found, expected) = (parameters.len(), self.parameters());
            return Err(Error::Init(format!("there are {found} values for {expected} parameters")));
        }
        self.model.unconstrain(parameters).map_err(Error::Init)
    }

    /// `log p` at a point, and its gradient if wanted, or why there is none.
    pub fn log_density(&self, z: &[f64], gradient: Option<&mut [f64]>) -> Result<f64, Error> {
        if z.len() != self.model.dim() || gradient.as_ref().is_some_and(|grad| grad.len() != z.len()) {
            return Err(Error::Failed(format!("a point has {} coordinates, not {}", self.model.dim(), z.len())));
        }
        self.model.log_density(z, gradient).map_err(Error::Failed)
    }

    /// Takes what the model has printed, and why it has rejected points.
    pub fn take_messages(&self) -> Vec<Message> {
        let mut messages = take_printed();
        messages.extend(self.messages.take());
        messages
    }

    fn constrain(&self, z: &[f64], transformed: bool, values: &mut [f64]) {
        if let Err(message) = self.model.constrain(z, transformed, None, values) {
            self.messages.add(&message);
            values.fill(f64::NAN);
        }
    }
}

/// A seed for each block of draws, unlike those of other blocks and other seeds.
fn seed_of(seed: u64, block: u64) -> u64 {
    let x = (seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

/// Stan's seeds have 32 bits.
fn short(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}

impl Target for StanModel {
    fn dim(&self) -> usize {
        self.model.dim()
    }

    fn eval(&self, _: Rows<'_>, z: Points<'_>, out: EvalOut<'_>, scratch: &mut Scratch) -> Result<(), TargetError> {
        eval_points(self.model.dim(), z, out, scratch, |z, mut grad, _| {
            self.go_on()?;
            Ok(self.model.log_density(z, grad.as_deref_mut()).unwrap_or_else(|message| {
                self.messages.add(&message);
                if let Some(grad) = grad {
                    grad.fill(f64::NAN);
                }
                f64::NAN
            }))
        })
    }

    fn gradient_is_tested(&self) -> bool {
        true
    }

    fn parameter_names(&self) -> Vec<String> {
        self.model.names(self.transformed, false).iter().map(|name| shown(name)).collect()
    }

    fn to_parameters(&self, z: &[f64], parameters: &mut [f64]) {
        self.constrain(z, self.transformed, parameters);
    }
}
