//! Which settings a method reads: the others are refused, with a sentence that names those methods that do read them.

use super::parts::Parts;
use crate::draws::Plan;
use crate::error::Error;
use crate::method::Method;
use crate::rule::{Rule, WeightRule};

/// The settings that only combinations of parts read. The others are read by every method.
const OF_PARTS: [&str; 18] = [
    "source",
    "draws",
    "radius",
    "draws_per_component",
    "estimator",
    "entropy_trick",
    "rule",
    "rate",
    "decay",
    "step_cap",
    "trust_region",
    "momentum",
    "curvature_rate",
    "damping",
    "weight_rule",
    "weight_rate",
    "weight_trust_region",
    "minibatch",
];

/// Whether only combinations of parts read this setting.
pub(super) fn is_of_parts(setting: &str) -> bool {
    OF_PARTS.contains(&setting)
}

/// Whether these parts read a setting.
fn reads(parts: &Parts, setting: &str) -> bool {
    let Parts { draws, rule, weight_rule, .. } = *parts;
    match setting {
        "radius" => draws == Plan::Cubature,
        // The trust region has its bound instead.
        "rate" | "decay" => rule != Rule::TrustRegion,
        "step_cap" => rule == Rule::Improved,
        "trust_region" => rule == Rule::TrustRegion,
        "momentum" => rule == Rule::Momentum || rule == Rule::Adam,
        "curvature_rate" | "damping" => rule == Rule::Momentum,
        // Adam moves the weights along with the rest.
        "weight_rate" => rule != Rule::Adam && weight_rule != WeightRule::Fixed,
        "weight_trust_region" => rule != Rule::Adam && weight_rule == WeightRule::TrustRegion,
        _ => true,
    }
}

/// Refuses the first of the settings that these parts do not read.
pub(super) fn check(parts: &Parts, given: impl Iterator<Item = &'static str>) -> Result<(), Error> {
    for setting in given {
        if !reads(parts, setting) {
            let Parts { method, rule, weight_rule, draws, .. } = parts;
            let part = match setting {
                "radius" => format!("draws {}", draws.name()),
                "weight_rate" | "weight_trust_region" if *rule != Rule::Adam => {
                    format!("weight rule {}", weight_rule.name())
                }
                _ => format!("rule {}", rule.name()),
            };
            return Err(unread(setting, &format!("{} with {part}", method.name()), &readers(parts, setting)));
        }
    }
    Ok(())
}

/// The error for a setting of the parts, which the automatic mixture does not read.
pub(super) fn unread_by_auto(setting: &'static str) -> Error {
    let methods = Method::ALL.iter().filter(|(method, ..)| *method != Method::Auto);
    let names: Vec<&str> = methods.filter(|entry| reads(&Parts::new(entry.0), setting)).map(|entry| entry.1).collect();
    if names.is_empty() {
        return unread(setting, "auto", &readers(&Parts::new(Method::ComponentDraws), setting));
    }
    unread(setting, "auto", &names.join(", "))
}

fn unread(setting: &'static str, method: &str, readers: &str) -> Error {
    Error::Config { setting, problem: format!("is not read by method {method}, but by {readers}") }
}

/// The methods whose own parts read a setting, and what `parts` would have to change to read it.
fn readers(parts: &Parts, setting: &str) -> String {
    let methods = Method::ALL.iter().filter(|(method, ..)| *method != Method::Auto);
    let mut all: Vec<String> = methods
        .filter(|(method, ..)| *method != parts.method && reads(&Parts::new(*method), setting))
        .map(|(_, name, _)| (*name).to_owned())
        .collect();
    let changed = |name: &str, values: Vec<&str>| match values.is_empty() {
        true => None,
        false => Some(format!("{} with {name} {}", parts.method.name(), values.join(" or "))),
    };
    let rules = Rule::ALL.iter().filter(|(rule, ..)| *rule != Rule::Adam);
    let rules = rules.filter(|(rule, ..)| reads(&Parts { rule: *rule, ..parts.clone() }, setting));
    let plans = Plan::ALL.iter().filter(|(draws, ..)| reads(&Parts { draws: *draws, ..parts.clone() }, setting));
    let weight_rules = WeightRule::ALL.iter();
    let weight_rules =
        weight_rules.filter(|(weight_rule, ..)| reads(&Parts { weight_rule: *weight_rule, ..parts.clone() }, setting));
    // Adam's rule and estimator go together: no other rule for it.
    if parts.rule != Rule::Adam {
        all.extend(changed("rule", rules.map(|entry| entry.1).collect()));
    }
    all.extend(changed("draws", plans.map(|entry| entry.1).collect()));
    all.extend(changed("weight rule", weight_rules.map(|entry| entry.1).collect()));
    all.join(", ")
}
