//! How a table was read, for the record.

use natmix_models::design::Coding;
use natmix_models::effects::{EffectsMemory, Family, GroupParameters};
use natmix_models::table::TableFacts;
use natmix_models::{Encoding, RegressionKind};
use serde_json::{Map, Value, json};

/// What was found in the table, its categories with their reference levels, and what the levels of the outcome mean. `kind` is
/// that of the regression, if it is one.
pub(crate) fn summary(encoding: &Encoding, facts: &TableFacts, kind: Option<RegressionKind>) -> Value {
    let features = encoding.features.iter().filter_map(|feature| match &feature.coding {
        Coding::Levels { levels, first_dropped } => {
            Some((feature.column.as_str(), &levels[..], levels.first().filter(|_| *first_dropped)))
        }
        Coding::Number { .. } => None,
    });
    let of_formula = encoding.formula.iter().flat_map(|formula| formula.encoding.categories());
    let mut table = with_categories(features.chain(of_formula), facts);
    if let Some(outcome) = &encoding.outcome
        && let Some(levels) = &outcome.levels
    {
        let mut about = json!({"column": outcome.column, "levels": levels});
        match (kind, &levels[..]) {
            (Some(RegressionKind::Logistic), [_, positive]) => about["positive"] = json!(positive),
            (Some(RegressionKind::Softmax { .. }), [reference, ..]) => about["reference"] = json!(reference),
            _ => {}
        }
        table.insert("outcome".into(), about);
    }
    Value::Object(table)
}

/// The same for a regression with varying effects.
pub(crate) fn summary_of_effects(memory: &EffectsMemory, facts: &TableFacts) -> Value {
    let mut table = with_categories(memory.encoding.categories(), facts);
    if let Some(levels) = memory.levels() {
        let mut about = json!({"column": memory.outcome(), "levels": levels});
        if let (Family::Logistic, [_, positive]) = (memory.layout.family(), levels) {
            about["positive"] = json!(positive);
        }
        table.insert("outcome".into(), about);
    }
    let groupings = memory.layout.groupings();
    if !groupings.is_empty() {
        let about = |group: &GroupParameters| json!({"name": group.name, "levels": group.levels.len(), "columns": group.columns});
        table.insert("groupings".into(), Value::Array(groupings.iter().map(about).collect()));
    }
    Value::Object(table)
}

/// What was found in the table, with its categories.
fn with_categories<'a>(
    categories: impl Iterator<Item = (&'a str, &'a [String], Option<&'a String>)>,
    facts: &TableFacts,
) -> Map<String, Value> {
    let mut table = match json!(facts) {
        Value::Object(table) => table,
        _ => Map::new(),
    };
    // The categories have their levels below.
    table.remove("text");
    let category = |(column, levels, reference): (&str, &[String], Option<&String>)| {
        let text = facts.text.iter().any(|text| text.column == column);
        json!({"column": column, "levels": levels, "reference": reference, "text": text})
    };
    let categories: Vec<Value> = categories.map(category).collect();
    if !categories.is_empty() {
        table.insert("categories".into(), Value::Array(categories));
    }
    table
}
