//! Settings from Python keywords.

use crate::errors::in_python;
use natmix::Error;
use natmix_app::settings::Settings;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use toml::Value;

/// Sets each of `keywords` by its name: settings of a network's training if `training`, else of a fit.
pub fn set(settings: &mut Settings, keywords: &Bound<'_, PyDict>, training: bool) -> PyResult<()> {
    for (name, given) in keywords {
        let name: String = name.extract()?;
        let value = value(&name, &given)?;
        let done = if training { settings.set_network(&name, value) } else { settings.set(&name, value) };
        done.map_err(|error| refuse(error, &given))?;
    }
    Ok(())
}

/// The exception for an invalid value of a setting, with the value as Python writes it.
fn refuse(error: Error, given: &Bound<'_, PyAny>) -> PyErr {
    let text = in_python(&error);
    PyValueError::new_err(match (text.rsplit_once(", not "), given.repr()) {
        (Some((start, _)), Ok(shown)) => format!("{start}, not {shown}"),
        _ => text,
    })
}

/// A plain value: text, a number, true or false, or a list of such.
fn value(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        // No setting is a table: the resulting message says what the setting must be.
        return Ok(Value::Table(toml::Table::new()));
    }
    if let Ok(truth) = given.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::String(text.extract()?));
    }
    if let Ok(number) = given.extract::<i64>() {
        return Ok(Value::Integer(number));
    }
    if let Ok(number) = given.extract::<f64>() {
        return Ok(Value::Float(number));
    }
    let Ok(items) = given.try_iter() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} must be a plain number or name, not {kind}")));
    };
    items.map(|item| value(name, &item?)).collect::<PyResult<_>>().map(Value::Array)
}
