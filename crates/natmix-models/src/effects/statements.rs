//! Statements of priors: `age ~ normal(0, 1)`, `sd(clinic) ~ half_normal(1)`.

use super::prior_density::PriorDensity;
use natmix::Error;
use std::fmt;
use std::str::FromStr;

/// A prior, and the parameter that has it: the name of a coefficient; `sd(GROUPING)` or `sd(GROUPING, COLUMN)`; `cor(GROUPING)`; or a
/// parameter of the family, such as `sigma`, `shape`, `df` or `cut`.
///
/// ```
/// use natmix_models::effects::PriorStatement;
/// let statement: PriorStatement = "sd(clinic) ~ half_normal(1)".parse().unwrap();
/// assert_eq!(statement.parameter, "sd(clinic)");
/// assert_eq!(statement.to_string(), "sd(clinic) ~ half_normal(1)");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PriorStatement {
    /// The parameter.
    pub parameter: String,
    /// Its prior, in the units of the data.
    pub prior: PriorDensity,
}

impl fmt::Display for PriorStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ~ ", self.parameter)?;
        // With its precision.
        self.prior.fmt(f)
    }
}

impl FromStr for PriorStatement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // From the right: names of columns may hold a tilde, those of distributions do not.
        let Some((parameter, prior)) = text.rsplit_once('~').filter(|(parameter, _)| !parameter.trim().is_empty())
        else {
            let problem =
                format!("prior `{}`: expected PARAMETER ~ DISTRIBUTION, such as age ~ normal(0, 1)", text.trim());
            return Err(Error::InvalidInput(problem));
        };
        Ok(Self { parameter: parameter.trim().into(), prior: prior.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_from_the_right() {
        let statement: PriorStatement = " a ~ b~ cauchy(0, 1)".parse().unwrap();
        assert_eq!((statement.parameter.as_str(), statement.prior.to_string().as_str()), ("a ~ b", "cauchy(0, 1)"));
        let long: PriorStatement = "x ~ normal(-0.123456, 2)".parse().unwrap();
        assert_eq!(
            (format!("{long:.3}"), format!("{long}")),
            ("x ~ normal(-0.123, 2)".into(), "x ~ normal(-0.123456, 2)".into())
        );
        for bad in ["normal(0, 1)", "~ normal(0, 1)", "x ~ normal"] {
            assert!(bad.parse::<PriorStatement>().is_err(), "{bad}");
        }
    }
}
