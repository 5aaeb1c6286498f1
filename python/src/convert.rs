//! Plain values from and to Python: dictionaries, lists, numbers and text.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// A Python value as a JSON value.
pub fn to_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Ok(Value::Bool(value.is_true()));
    }
    if value.cast::<PyInt>().is_ok() {
        let whole = value.extract::<u64>().map(Number::from).or_else(|_| value.extract::<i64>().map(Number::from));
        return whole.map(Value::Number).map_err(|_| PyValueError::new_err(format!("{value} is too large")));
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        let number = Number::from_f64(value.value());
        return number.map(Value::Number).ok_or_else(|| PyValueError::new_err(format!("{value} is not finite")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.extract()?));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return to_map(dict).map(Value::Object);
    }
    if value.cast::<PyList>().is_ok() || value.cast::<PyTuple>().is_ok() {
        return value.try_iter()?.map(|item| to_value(&item?)).collect::<PyResult<_>>().map(Value::Array);
    }
    // A NumPy number.
    match value.call_method0("item") {
        Ok(plain) if !plain.get_type().is(value.get_type()) => to_value(&plain),
        _ => Err(PyTypeError::new_err(format!("not a plain number, text, list or dictionary: {}", value.repr()?))),
    }
}

/// A Python dictionary with text as keys, as a JSON object.
pub fn to_map(dict: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    dict.iter().map(|(name, value)| Ok((name.extract()?, to_value(&value)?))).collect()
}

/// A JSON value as a Python value.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(whole), _) => whole.into_pyobject(py)?.into_any(),
            (_, Some(whole)) => whole.into_pyobject(py)?.into_any(),
            _ => number.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(values) => {
            let items: Vec<Bound<'py, PyAny>> =
                values.iter().map(|value| to_python(py, value)).collect::<PyResult<_>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            map.iter().try_for_each(|(name, value)| dict.set_item(name, to_python(py, value)?))?;
            dict.into_any()
        }
    })
}
