//! A composed method as a document and tensors.

use super::Parts;
use super::carried;
use crate::config::Config;
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

pub(super) fn save(parts: &Parts, tensors: &mut Tensors) -> Result<Value, Error> {
    add_mixture(tensors, "", &parts.mixture);
    carried::save(&parts.carried, &parts.config, parts.mixture.dim(), tensors);
    let document = Document { mixture: Outline::of(&parts.mixture), record: parts.record.save(tensors) };
    serde_json::to_value(document).map_err(|error| Error::InvalidInput(format!("this run cannot be saved: {error}")))
}

pub(super) fn layout(config: &Config, document: &Value) -> Result<Layout, String> {
    let Document { mixture, record } = read(document)?;
    let count = mixture.ids.len();
    if config.components != count || config.covariance != mixture.covariance {
        return Err("settings and mixture differ in number or shape of the components".into());
    }
    let mut layout = mixture.layout("")?;
    record.add_layout(&mut layout, &mixture, false)?;
    carried::add_layout(&mut layout, config, count, mixture.dim);
    Ok(layout)
}

pub(super) fn load(config: &Config, document: &Value, mut tensors: Tensors) -> Result<Parts, String> {
    let Document { mixture, record } = read(document)?;
    let carried = carried::load(config, mixture.ids.len(), mixture.dim, &mut tensors)?;
    let record = record.load(&mut tensors)?;
    let mixture = take_mixture(&mut tensors, "", mixture)?;
    Ok(Parts::new(config, mixture, record, carried))
}
