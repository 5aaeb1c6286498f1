//! Which parameters of a regression are coefficients and effects of groups, and what their exponentials mean.

use crate::predictive::class_names;
use natmix_models::design::Coding;
use natmix_models::effects::{EffectsStudy, GroupCoefficients};
use natmix_models::{Encoding, RegressionKind, RegressionMemory, Study};
use natmix_report::{ClassCoefficients, Coefficients, GroupEffects};

/// What the exponential of a coefficient is called.
fn ratio(model: &str) -> Option<String> {
    let ratio = match model {
        "logistic" | "binomial" | "ordinal" => "odds ratio",
        "poisson" | "negative-binomial" => "rate ratio",
        "gamma" => "ratio of means",
        "survival" => "ratio of times",
        // Of a class against the reference class.
        "softmax" => "odds ratio",
        _ => return None,
    };
    Some(ratio.into())
}

/// Those of a regression with fixed coefficients.
pub(crate) fn of_study(study: &Study) -> Coefficients {
    let RegressionMemory { kind, encoding } = &study.memory;
    let spreads = spreads(encoding);
    let classes = if let RegressionKind::Softmax { classes } = kind { *classes } else { 0 };
    let names = class_names(classes, encoding.outcome.as_ref().and_then(|outcome| outcome.levels.as_deref()));
    let classes = names.split_first().map(|(reference, others)| ClassCoefficients {
        reference: reference.clone(),
        others: others.to_vec(),
        columns: encoding.names(),
    });
    let intercept = encoding.intercept;
    Coefficients { count: spreads.len(), intercept, spreads, ratio: ratio(kind.name()), classes, groups: Vec::new() }
}

/// Those of a regression with varying effects.
pub(crate) fn of_effects(study: &EffectsStudy) -> Coefficients {
    let layout = &study.memory.layout;
    let spreads: Vec<f64> = layout.column_scales().collect();
    let groups = layout.groupings().into_iter().filter(|group| group.coefficients != GroupCoefficients::Shared);
    Coefficients {
        count: spreads.len(),
        intercept: layout.intercept() == Some(0),
        spreads,
        ratio: ratio(layout.family().name()),
        classes: None,
        groups: groups
            .map(|group| GroupEffects {
                name: group.name,
                levels: group.levels,
                columns: group.columns,
                first_effect: group.first_effect,
            })
            .collect(),
    }
}

fn spreads(encoding: &Encoding) -> Vec<f64> {
    if let Some(formula) = &encoding.formula {
        return (0..formula.encoding.dim()).map(|column| formula.centre_and_scale(column).1).collect();
    }
    let of_feature = |coding: &Coding, width: usize| match coding {
        Coding::Number { scale, .. } => vec![*scale],
        Coding::Levels { .. } => vec![1.0; width],
    };
    let features = encoding.features.iter().flat_map(|feature| of_feature(&feature.coding, feature.width()));
    std::iter::repeat_n(1.0, usize::from(encoding.intercept)).chain(features).collect()
}
