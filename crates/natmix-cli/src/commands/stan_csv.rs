//! Draws as a file like those of CmdStan's `sample`, which tools for Stan read.
//!
//! It is a file of CmdStan's sampler `fixed_param`, which has no warm-up, no step size and no trees: nothing has to be made up.
//! The column `lp__` is the log density with all constants; CmdStan leaves those out that do not depend on parameters.

use crate::commands::sample::NamedDraws;
use std::io::Write;

/// Draws with their log densities.
pub struct StanCsv<'a> {
    /// The draws, with names as CmdStan writes them.
    pub draws: &'a NamedDraws,
    /// Log density of each.
    pub log_density: &'a [f64],
    /// Name of the model.
    pub model: &'a str,
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
            format!("model = {}", self.model),
            "method = sample (Default)".to_owned(),
            "  sample".to_owned(),
            format!("    num_samples = {n}"),
            // As CmdStan says, although there is none: readers expect more than zero.
            "    num_warmup = 1000 (Default)".to_owned(),
            "    save_warmup = 0 (Default)".to_owned(),
            "    thin = 1 (Default)".to_owned(),
            "    algorithm = fixed_param".to_owned(),
            "id = 1 (Default)".to_owned(),
            "random".to_owned(),
            format!("  seed = {}", self.seed),
        ];
        for line in settings {
            writeln!(out, "# {line}")?;
        }
        let header: Vec<&str> = ["lp__", "accept_stat__"].into_iter().chain(names.iter().map(String::as_str)).collect();
        writeln!(out, "{}", header.join(","))?;
        for (log_density, row) in self.log_density.iter().zip(values.chunks_exact(names.len().max(1))) {
            write!(out, "{log_density},1")?;
            for value in row {
                match value.is_nan() {
                    true => write!(out, ",nan")?,
                    false => write!(out, ",{value}")?,
                }
            }
            writeln!(out)?;
        }
        // Readers look for the times to find the end of the draws.
        for line in [
            "",
            " Elapsed Time: 0 seconds (Warm-up)",
            "               0 seconds (Sampling)",
            "               0 seconds (Total)",
            "",
        ] {
            writeln!(out, "# {line}")?;
        }
        out.flush()
    }
}
