//! Which parameters of a regression are coefficients and effects of groups, and what their exponentials mean.

use natmix_models::design::Coding;
use natmix_models::effects::{EffectsStudy, GroupCoefficients};
use natmix_models::{Encoding, RegressionKind, Study};
use natmix_report::{Coefficients, GroupEffects};

/// What the exponential of a coefficient is called.
fn ratio(model: &str) -> Option<String> {
    let ratio = match model {
        "logistic" | "binomial" | "ordinal" => "odds ratio",
        "poisson" | "negative-binomial" => "rate ratio",
        "gamma" => "ratio of means",
        "survival" => "ratio of times",
        _ => return None,
    };
    Some(ratio.into())
}

/// Those of a regression with fixed coefficients; none for a softmax, which has several per column.
pub(crate) fn of_study(study: &Study) -> Option<Coefficients> {
    let memory = &study.memory;
    if matches!(memory.kind, RegressionKind::Softmax { .. }) {
        return None;
    }
    let spreads = spreads(&memory.encoding);
    let intercept = memory.encoding.intercept;
    Some(Coefficients {
        count: spreads.len(),
        intercept,
        spreads,
        ratio: ratio(memory.kind.name()),
        groups: Vec::new(),
    })
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
