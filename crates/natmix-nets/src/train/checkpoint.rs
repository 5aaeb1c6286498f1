//! The state of a training run, and its file: a JSON header, then the numbers of all components, little-endian.
//!
//! A file is replaced only when the new one is complete, and refused when it does not fit in every respect.

use super::super::network::Network;
use super::component::Component;
use super::config::{Optimiser, TrainConfig};
use natmix::Error;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const MAGIC: &[u8; 16] = b"natmix training1";
/// Largest header: beyond this the file is damaged.
const MOST_HEADER: u64 = 1 << 24;

/// All that a run carries from one step to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    pub(super) components: Vec<Component>,
    pub(super) log_weights: Vec<f64>,
    pub(super) iteration: u64,
    /// Log likelihood of the epoch's rows so far, for each component.
    pub(super) sums: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    network: Network,
    config: TrainConfig,
    iteration: u64,
    log_weights: Vec<f64>,
    sums: Vec<f64>,
}

impl TrainState {
    pub(super) fn new(network: &Network, config: &TrainConfig) -> Self {
        let k = config.components;
        let components = (0..k as u64).map(|index| Component::start(network, config, index));
        Self {
            components: components.collect(),
            log_weights: vec![-(k as f64).ln(); k],
            iteration: 0,
            sums: vec![0.0; k],
        }
    }

    /// Steps done.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    pub(super) fn fits(&self, network: &Network, config: &TrainConfig) -> bool {
        let n = network.weights();
        let positive = |x: &f32| *x > 0.0 || config.optimiser == Optimiser::Adam && *x >= 0.0;
        let sound = |c: &Component| {
            [c.mean.len(), c.prec.len(), c.velocity.len()] == [n; 3]
                && c.prec.iter().all(positive)
                && c.mean.iter().chain(&c.velocity).all(|x| x.is_finite())
        };
        [self.components.len(), self.log_weights.len(), self.sums.len()] == [config.components; 3]
            && self.components.iter().all(sound)
            && self.log_weights.iter().chain(&self.sums).all(|x| x.is_finite())
    }

    /// Writes the state with its settings to a file.
    pub fn save(&self, path: &Path, network: &Network, config: &TrainConfig) -> Result<(), Error> {
        let header = Header {
            network: network.clone(),
            config: config.clone(),
            iteration: self.iteration,
            log_weights: self.log_weights.clone(),
            sums: self.sums.clone(),
        };
        let problem = |error: &dyn std::fmt::Display| Error::InvalidInput(format!("{}: {error}", path.display()));
        let header = serde_json::to_vec(&header).map_err(|error| problem(&error))?;
        let part = path.with_extension("part");
        let write = || -> std::io::Result<()> {
            let mut file = std::io::BufWriter::new(File::create(&part)?);
            file.write_all(MAGIC)?;
            file.write_all(&(header.len() as u64).to_le_bytes())?;
            file.write_all(&header)?;
            for component in &self.components {
                for numbers in [&component.mean, &component.prec, &component.velocity] {
                    for x in numbers {
                        file.write_all(&x.to_le_bytes())?;
                    }
                }
            }
            file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
            std::fs::rename(&part, path)
        };
        write().map_err(|error| problem(&error))
    }

    /// Reads a state that was saved with this network and these settings.
    pub fn load(path: &Path, network: &Network, config: &TrainConfig) -> Result<Self, Error> {
        let bad = |problem: &str| Error::InvalidInput(format!("{}: {problem}", path.display()));
        let failed = |error: std::io::Error| bad(&error.to_string());
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut head = [0; 24];
        file.read_exact(&mut head).map_err(|_| bad("not a checkpoint of training"))?;
        let mut size = [0; 8];
        size.copy_from_slice(&head[16..]);
        let size = u64::from_le_bytes(size);
        if &head[..16] != MAGIC || size > MOST_HEADER || size > length {
            return Err(bad("not a checkpoint of training"));
        }
        let mut text = vec![0; size as usize];
        file.read_exact(&mut text).map_err(failed)?;
        let header: Header = serde_json::from_slice(&text).map_err(|error| bad(&format!("damaged ({error})")))?;
        if header.network != *network || header.config != *config {
            return Err(bad("the interrupted run had another network or other settings: give them again"));
        }
        let n = network.weights();
        if length != 24 + size + (config.components * 3 * n * 4) as u64 {
            return Err(bad("the file is cut short or too long"));
        }
        let mut bytes = vec![0; 4 * n];
        let mut numbers = || -> Result<Vec<f32>, Error> {
            file.read_exact(&mut bytes).map_err(failed)?;
            Ok(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
        };
        let components = (0..config.components)
            .map(|_| Ok(Component { mean: numbers()?, prec: numbers()?, velocity: numbers()? }))
            .collect::<Result<_, Error>>()?;
        let Header { iteration, log_weights, sums, .. } = header;
        let state = Self { components, log_weights, iteration, sums };
        if state.fits(network, config) { Ok(state) } else { Err(bad("it holds numbers that no run leaves")) }
    }
}
