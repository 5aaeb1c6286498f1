//! A composed method as a document and tensors.

use super::{PartsKind, PartsStrategy, carried};
use crate::error::Error;
use crate::save::bundle::{Layout, Tensors};
use crate::save::parts::{Outline, add_mixture, take_mixture};
use crate::strategy::record::RecordOutline;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    mixture: Outline,
    record: RecordOutline,
}

fn read(document: &Value) -> Result<Document, String> {
    Document::deserialize(document).map_err(|error| error.to_string())
}

pub(super) fn save(parts: &PartsStrategy, tensors: &mut Tensors) -> Result<Value, Error> {
    add_mixture(tensors, "", &parts.mixture);
    carried::save(&parts.carried, parts.settings.rule, &parts.mixture, tensors);
    let document = Document { mixture: Outline::of(&parts.mixture), record: parts.record.save(tensors) };
    serde_json::to_value(document).map_err(|error| Error::InvalidInput(format!("this run cannot be saved: {error}")))
}

pub(super) fn layout(kind: &PartsKind<'_>, document: &Value) -> Result<Layout, String> {
    let Document { mixture, record } = read(document)?;
    if kind.settings.components != mixture.ids.len() || kind.config.covariance != mixture.covariance {
        return Err("settings and mixture differ in number or shape of the components".into());
    }
    let mut layout = mixture.layout("")?;
    record.add_layout(&mut layout, &mixture, false)?;
    carried::add_layout(&mut layout, kind.settings.rule, &mixture);
    Ok(layout)
}

pub(super) fn load(kind: &PartsKind<'_>, document: &Value, mut tensors: Tensors) -> Result<PartsStrategy, String> {
    let Document { mixture, record } = read(document)?;
    let carried = carried::load(kind.settings.rule, &mixture, &mut tensors)?;
    let record = record.load(&mut tensors)?;
    let mixture = take_mixture(&mut tensors, "", mixture)?;
    Ok(kind.strategy(mixture, record, carried))
}
