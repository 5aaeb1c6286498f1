//! Posterior probabilities of statements about parameters, and summaries of quantities computed from them, with their Monte Carlo errors.
//!
//! They come from the draws that a fit delivers, with their weights if these are stored. With normalised weights `w_s` the error of a mean
//! `m` of values `x_s` is `sqrt(sum_s w_s^2 (x_s - m)^2)`; draws of chains count as many as their autocorrelations leave.

use crate::summary;
use crate::{Error, FitRecord, SavedModel};
use natmix::answer::delivered::DeliveredChains;
use natmix::chains::certificate::judge_draws;
use natmix_models::statement::Statement;
use natmix_report::{Draws, number};
use serde::Serialize;
use std::fmt;

/// An event that did not occur in n draws has a probability below 3 / n, with 95% confidence.
const RULE_OF_THREE: f64 = 3.0;

/// What the draws say about a statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Tested {
    /// It can be true or false.
    Claim(TestedClaim),
    /// It is a quantity.
    Quantity(TestedQuantity),
}

/// The probability of a statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestedClaim {
    /// The statement.
    pub statement: String,
    /// The share of the draws for which it holds.
    pub probability: f64,
    /// Monte Carlo error of that; zero if it holds for all draws or for none.
    pub se: f64,
    /// A bound with 95% confidence, if it holds for none of the draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// A bound with 95% confidence, if it holds for all draws.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Effective number of draws behind it.
    pub ess: f64,
}

/// A quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TestedQuantity {
    /// How it was written.
    pub quantity: String,
    /// Mean.
    pub mean: f64,
    /// Monte Carlo error of the mean.
    pub se: f64,
    /// Standard deviation.
    pub sd: f64,
    /// 5% quantile.
    pub q05: f64,
    /// Median.
    pub q50: f64,
    /// 95% quantile.
    pub q95: f64,
    /// Effective number of draws for the mean.
    pub ess: f64,
}

/// Draws of the parameters with all that decides about errors.
struct TestDraws {
    draws: Draws,
    /// Weights that sum to one; none if all are equal.
    weights: Option<Vec<f64>>,
    chains: Option<DeliveredChains>,
    /// Draws of equal weight that were chosen by weights count less than others: the effective number of those.
    chosen_from: f64,
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let draws = |ess: f64| number::count(ess.round() as u64);
        match self {
            Self::Claim(TestedClaim { statement, at_most: Some(bound), ess, .. }) => {
                let bound = number::significant(*bound, 1);
                write!(f, "P({statement}) < {bound}   (it holds for none of {} effective draws)", draws(*ess))
            }
            Self::Claim(TestedClaim { statement, at_least: Some(bound), ess, .. }) => {
                let missing = number::significant(1.0 - bound, 1);
                write!(f, "P({statement}) > 1 − {missing}   (it holds for all of {} effective draws)", draws(*ess))
            }
            Self::Claim(TestedClaim { statement, probability, se, ess, .. }) => {
                let (probability, se) = (number::rounded(*probability, *se), number::significant(*se, 2));
                write!(f, "P({statement}) = {probability} ± {se}   ({} effective draws)", draws(*ess))
            }
            Self::Quantity(TestedQuantity { quantity, mean, se, sd, q05, q50, q95, ess }) => {
                // One digit more than those of the standard deviation.
                let [mean, q05, q50, q95] = [mean, q05, q50, q95].map(|x| number::rounded(*x, 0.1 * sd));
                let (se, sd) = (number::significant(*se, 2), number::significant(*sd, 3));
                write!(
                    f,
                    "{quantity}: mean {mean} ± {se}, sd {sd}, 5% {q05}, 50% {q50}, 95% {q95}   ({} effective draws)",
                    draws(*ess)
                )
            }
        }
    }
}

/// What the draws of a fit say about statements.
pub fn test(record: &FitRecord, statements: &[String]) -> Result<Vec<Tested>, Error> {
    let draws = TestDraws::of(record)?;
    let parsed: Vec<Statement> = statements
        .iter()
        .map(|text| Statement::parse(text, &draws.draws.names).map_err(|error| Error::Invalid(error.to_string())))
        .collect::<Result<_, _>>()?;
    parsed.iter().zip(statements).map(|(statement, text)| draws.test(statement, text)).collect()
}

impl TestDraws {
    fn of(record: &FitRecord) -> Result<Self, Error> {
        let posterior = &record.posterior;
        let kept = &record.draws;
        if kept.names.is_empty() || kept.component.is_empty() {
            return Err(Error::Invalid(
                "no draws of parameters are stored with this fit, as with networks: nothing can be tested".into(),
            ));
        }
        let Some(answer) = &posterior.answer else {
            return Ok(Self { draws: kept.clone(), weights: None, chains: None, chosen_from: f64::INFINITY });
        };
        let equal = answer.weights.iter().all(|weight| *weight == answer.weights[0]);
        if equal {
            let chains = kept.chains.clone();
            return Ok(Self { draws: kept.clone(), weights: None, chains, chosen_from: f64::INFINITY });
        }
        let elsewhere = match &posterior.model {
            SavedModel::Stan(_) => true,
            SavedModel::External(memory) => !memory.variables.is_empty(),
            _ => false,
        };
        if elsewhere {
            // Only the model itself can compute its parameters: those of draws of equal weight are stored.
            let squares: f64 = answer.weights.iter().map(|weight| weight * weight).sum();
            return Ok(Self { draws: kept.clone(), weights: None, chains: None, chosen_from: squares.recip() });
        }
        let values = posterior.to_own_scale(&answer.draws)?;
        let draws = Draws { names: kept.names.clone(), values, component: vec![0; answer.weights.len()], chains: None };
        Ok(Self {
            draws,
            weights: Some(answer.weights.clone()),
            chains: answer.chains.clone(),
            chosen_from: f64::INFINITY,
        })
    }

    fn test(&self, statement: &Statement, text: &str) -> Result<Tested, Error> {
        let p = self.draws.names.len();
        let rows = || self.draws.values.chunks_exact(p);
        if !statement.is_claim() {
            let values: Vec<f64> = rows().filter_map(|row| statement.values(row).first().copied()).collect();
            check_numbers(values.iter().filter(|value| value.is_finite()).count(), values.len(), text)?;
            let about = self.mean(&values);
            let names = vec![text.to_owned()];
            let column = Draws { names, values, component: self.draws.component.clone(), chains: None };
            let summary = summary::parameters(&column, self.weights.as_deref()).remove(0);
            return Ok(Tested::Quantity(TestedQuantity {
                quantity: text.to_owned(),
                mean: summary.mean,
                se: about.se,
                sd: summary.sd,
                q05: summary.q05,
                q50: summary.q50,
                q95: summary.q95,
                ess: about.ess,
            }));
        }
        let holds: Vec<f64> =
            rows().filter_map(|row| statement.holds(row)).map(|holds| f64::from(u8::from(holds))).collect();
        check_numbers(holds.len(), self.draws.component.len(), text)?;
        let (all, none) = (holds.iter().all(|x| *x == 1.0), holds.iter().all(|x| *x == 0.0));
        let mut about = self.mean(&holds);
        if all || none {
            // Draws that are all the same do not show how far they depend on each other: what is compared does.
            let margins: Vec<Vec<f64>> = rows().map(|row| statement.margins(row)).collect();
            let count = margins.first().map_or(0, Vec::len);
            let of = |at: usize| self.mean(&margins.iter().map(|row| row[at]).collect::<Vec<f64>>()).ess;
            let fewest = (0..count).map(of).filter(|ess| *ess > 0.0).fold(about.ess, f64::min);
            about = MonteCarlo { mean: if all { 1.0 } else { 0.0 }, se: 0.0, ess: fewest };
        }
        let bound = (RULE_OF_THREE / about.ess).min(1.0);
        Ok(Tested::Claim(TestedClaim {
            statement: text.to_owned(),
            probability: about.mean.clamp(0.0, 1.0),
            se: about.se,
            at_most: none.then_some(bound),
            at_least: all.then_some(1.0 - bound),
            ess: about.ess,
        }))
    }

    /// Mean of values with its error.
    fn mean(&self, values: &[f64]) -> MonteCarlo {
        let n = values.len() as f64;
        // The share of the draws of chains that count.
        let share = match &self.chains {
            Some(chains) if chains.count > 0 => {
                let shape = (chains.count, chains.per_start.max(1));
                let judged = judge_draws(&chains.by_iteration(values, 1), 1, shape);
                judged.first().map_or(1.0, |judged| (judged.accuracy.ess / n).clamp(n.recip(), 1.0))
            }
            _ => 1.0,
        };
        let weight = |at: usize| self.weights.as_ref().map_or(n.recip(), |weights| weights[at]);
        let total: f64 = (0..values.len()).map(weight).sum();
        let mean = values.iter().enumerate().map(|(at, value)| weight(at) * value).sum::<f64>() / total;
        let deviation = |(at, value): (usize, &f64)| (weight(at) / total * (value - mean)).powi(2);
        let mut variance = values.iter().enumerate().map(deviation).sum::<f64>() / share;
        let mut ess = share
            * match &self.weights {
                Some(_) => (0..values.len()).map(|at| (weight(at) / total).powi(2)).sum::<f64>().recip(),
                None => n,
            };
        if self.chosen_from.is_finite() {
            variance *= 1.0 + ess / self.chosen_from;
            ess = (ess.recip() + self.chosen_from.recip()).recip();
        }
        MonteCarlo { mean, se: variance.sqrt(), ess }
    }
}

/// A mean of draws.
struct MonteCarlo {
    mean: f64,
    se: f64,
    ess: f64,
}

/// Refuses statements that have no value for some draws.
fn check_numbers(known: usize, draws: usize, text: &str) -> Result<(), Error> {
    match draws - known {
        0 => Ok(()),
        unknown => Err(Error::Invalid(format!(
            "`{text}` has no value for {unknown} of {draws} draws, as with the logarithm or the root of a negative number, or a division by \
             zero: write it so that it always has one"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws of two parameters: a normal one by its quantiles, and a constant.
    fn draws(n: usize, weights: Option<Vec<f64>>) -> TestDraws {
        let names = ["a", "c"].map(String::from).to_vec();
        let values = (0..n).flat_map(|i| [(i as f64 + 0.5) / n as f64, 2.0]).collect();
        TestDraws {
            draws: Draws { names, values, component: vec![0; n], chains: None },
            weights,
            chains: None,
            chosen_from: f64::INFINITY,
        }
    }

    fn claim(draws: &TestDraws, text: &str) -> TestedClaim {
        let statement = Statement::parse(text, &draws.draws.names).unwrap();
        match draws.test(&statement, text).unwrap() {
            Tested::Claim(claim) => claim,
            Tested::Quantity(_) => panic!("{text}"),
        }
    }

    #[test]
    fn probabilities_with_the_binomial_error() {
        let found = claim(&draws(1000, None), "a < 0.3");
        assert_eq!(found.probability, 0.3);
        assert!((found.se - (0.3 * 0.7 / 1000f64).sqrt()).abs() < 1e-12 && (found.ess - 1000.0).abs() < 1e-6);
        assert_eq!((found.at_most, found.at_least), (None, None));
        let (none, all) = (claim(&draws(1000, None), "a > 2"), claim(&draws(1000, None), "0 < a < c"));
        assert_eq!((none.probability, none.se, all.probability), (0.0, 0.0, 1.0));
        assert!((none.at_most.unwrap() - 0.003).abs() < 1e-9 && (all.at_least.unwrap() - 0.997).abs() < 1e-9);
    }

    #[test]
    fn weights_count() {
        // Half of the draws, those below 0.5, weigh three times as much as the others.
        let n = 1000;
        let weights = (0..n).map(|i| if i < n / 2 { 1.5 } else { 0.5 } / n as f64).collect();
        let found = claim(&draws(n, Some(weights)), "a < 0.5");
        assert!((found.probability - 0.75).abs() < 1e-12);
        let by_hand = (500.0 * ((0.0015 * 0.25_f64).powi(2) + (0.0005 * 0.75_f64).powi(2))).sqrt();
        assert!((found.se - by_hand).abs() < 1e-12 && (found.ess - 800.0).abs() < 1e-6, "{found:?}");
        // Draws that were chosen by weights have the errors of both.
        let chosen = TestDraws { chosen_from: 500.0, ..draws(1000, None) };
        let found = claim(&chosen, "a < 0.3");
        assert!((found.se - (0.3 * 0.7 * (1.0 / 1000.0 + 1.0 / 500.0_f64)).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn quantities_are_summarised_as_parameters_are() {
        let draws = draws(1000, None);
        let test = |text: &str| draws.test(&Statement::parse(text, &draws.draws.names).unwrap(), text);
        let Ok(Tested::Quantity(found)) = test("2 * a - c") else { panic!() };
        assert!((found.mean + 1.0).abs() < 1e-12 && (found.sd - 2.0 * (1.0 / 12f64).sqrt()).abs() < 2e-3);
        assert!((found.q05 + 1.9).abs() < 2e-3 && (found.se - found.sd / 1000f64.sqrt()).abs() < 1e-4);
        for bad in ["log(a - 0.5)", "log(a - 0.5) > 0", "1 / (c - 2)"] {
            let message = test(bad).unwrap_err().to_string();
            assert!(message.contains("has no value for") && message.contains("of 1000 draws"), "{message}");
        }
    }

    #[test]
    fn draws_of_chains_count_less() {
        // Each value stands ten times in a row.
        let (count, length) = (4, 500);
        let n = count * length;
        let mut draws = draws(n, None);
        let noise = |i: usize| ((i / 10) as f64 * 12.9898).sin().mul_add(43758.5453, 0.0).fract().abs();
        draws.draws.values = (0..n).flat_map(|i| [noise(i), 2.0]).collect();
        let zeros = vec![0.0; n];
        draws.chains = Some(DeliveredChains {
            count,
            per_start: 2,
            every: 1,
            log_p: zeros.clone(),
            energy: zeros.clone(),
            energy_change: zeros,
            diverged: vec![false; n],
        });
        let found = claim(&draws, "a < 0.5");
        assert!((120.0..400.0).contains(&found.ess), "{found:?}");
        let (p, ess) = (found.probability, found.ess);
        assert!((found.se - (p * (1.0 - p) / ess).sqrt()).abs() < 1e-9);
        let none = claim(&draws, "a > 2");
        assert!(none.at_most.is_some_and(|bound| (3.0 / 400.0..3.0 / 120.0).contains(&bound)), "{none:?}");
    }
}
