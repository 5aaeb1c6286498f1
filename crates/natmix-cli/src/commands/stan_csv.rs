//! Draws as a file like those of CmdStan's `sample`, which tools for Stan read.
//!
//! Columns whose names end with two underscores describe the sampler. Draws of a mixture have no step size and no tree: these
//! columns hold the values of a sampler that never rejects and never diverges.

use crate::commands::sample::NamedDraws;
use std::io::Write;

/// Draws with their log densities.
pub struct StanCsv<'a> {
    /// The draws, with names as CmdStan writes them.
    pub draws: &'a NamedDraws,
    /// Log density of each.
    pub log_density: &'a [f64],
    /// Seed of the draws.
    pub seed: u64,
}

impl StanCsv<'_> {
    /// Writes the file.
    pub fn write(&self, mut out: impl Write) -> std::io::Result<()> {
        let NamedDraws { names, values, .. } = self.draws;
        let n = self.log_density.len();
        let settings = [
            "stan_version_major = 2".to_owned(),
            "stan_version_minor = 35".to_owned(),
            "stan_version_patch = 0".to_owned(),
            "model = natmix_model".to_owned(),
            "method = sample (Default)".to_owned(),
            "  sample".to_owned(),
            format!("    num_samples = {n}"),
            "    num_warmup = 0".to_owned(),
            "    save_warmup = 0 (Default)".to_owned(),
            "    thin = 1 (Default)".to_owned(),
            "    algorithm = hmc (Default)".to_owned(),
            "      hmc".to_owned(),
            "        engine = nuts (Default)".to_owned(),
            "          nuts".to_owned(),
            "            max_depth = 10 (Default)".to_owned(),
            "        metric = diag_e (Default)".to_owned(),
            "        stepsize = 1 (Default)".to_owned(),
            "id = 1 (Default)".to_owned(),
            "random".to_owned(),
            format!("  seed = {}", self.seed),
        ];
        for line in settings {
            writeln!(out, "# {line}")?;
        }
        let sampler = ["lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"];
        let header: Vec<&str> = sampler.into_iter().chain(names.iter().map(String::as_str)).collect();
        writeln!(out, "{}", header.join(","))?;
        for (log_density, row) in self.log_density.iter().zip(values.chunks_exact(names.len().max(1))) {
            write!(out, "{log_density},1,1,0,1,0,{}", -log_density)?;
            for value in row {
                match value.is_nan() {
                    true => write!(out, ",nan")?,
                    false => write!(out, ",{value}")?,
                }
            }
            writeln!(out)?;
        }
        out.flush()
    }
}
