//! Designs of formulas against the Python package formulaic: `testdata/make_formula_references.py` made the stored ones.

use natmix_models::formula::{Formula, FormulaDesign, FormulaOptions};
use natmix_models::table::Table;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct References {
    table: BTreeMap<String, Vec<Value>>,
    designs: Vec<Reference>,
    new: NewRows,
}

#[derive(Deserialize)]
struct Reference {
    formula: String,
    columns: Vec<String>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct NewRows {
    table: BTreeMap<String, Vec<Value>>,
    formula: String,
    values: Vec<f64>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(f64),
    Text(String),
}

fn references() -> References {
    serde_json::from_str(include_str!("../testdata/formula_references.json")).unwrap()
}

/// Order of the columns, on which `.` depends.
const NAMES: [&str; 9] = ["y", "x1", "x2", "x3", "x 4", "k", "a", "b", "c"];

fn table(columns: &BTreeMap<String, Vec<Value>>) -> Table {
    assert_eq!(columns.len(), NAMES.len());
    let mut levels = BTreeMap::new();
    let mut numbers = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        let texts: Option<Vec<String>> = columns[*name]
            .iter()
            .map(|value| if let Value::Text(text) = value { Some(text.clone()) } else { None })
            .collect();
        let Some(texts) = texts else {
            numbers.push(
                columns[*name].iter().map(|v| if let Value::Number(v) = v { *v } else { f64::NAN }).collect::<Vec<_>>(),
            );
            continue;
        };
        let mut sorted = texts.clone();
        sorted.sort();
        sorted.dedup();
        numbers.push(texts.iter().map(|t| sorted.binary_search(t).unwrap() as f64).collect());
        levels.insert(at, sorted);
    }
    let rows = numbers[0].len();
    let values = (0..rows).flat_map(|row| numbers.iter().map(move |column| column[row])).collect();
    let mut table = Table::from_values("references", NAMES.map(String::from).to_vec(), values).unwrap();
    table.levels = levels;
    table
}

fn compare(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let gap = (found - expected).abs() / expected.abs().max(1.0);
        assert!(gap <= tolerance, "{what}, value {at}: {found} instead of {expected}");
    }
}

/// Values of functions that are defined by a recurrence are allowed more rounding.
fn tolerance(formula: &str) -> f64 {
    if formula.contains("poly") || formula.contains("bs(") { 1e-9 } else { 1e-12 }
}

#[test]
fn designs_are_those_of_formulaic() {
    let references = references();
    let table = table(&references.table);
    assert!(references.designs.len() >= 60);
    for Reference { formula, columns, values } in &references.designs {
        let parsed = Formula::parse(formula).unwrap();
        let design = FormulaDesign::new(&parsed, &table, &FormulaOptions::default()).unwrap();
        assert_eq!(design.names.len(), columns.len(), "{formula}: {:?} instead of {columns:?}", design.names);
        assert_eq!((design.rows, design.dropped.len()), (table.rows, 0), "{formula}: {:?}", design.dropped);
        compare(formula, &design.x, values, tolerance(formula));
        // What is stored gives the same rows the same bits.
        let stored = serde_json::to_string(&design.encoding).unwrap();
        let encoding: natmix_models::FormulaEncoding = serde_json::from_str(&stored).unwrap();
        assert_eq!(encoding, design.encoding, "{formula}");
        let rows = encoding.encode(&table).unwrap();
        assert!(rows.x == design.x && rows.outcome.as_ref() == Some(&design.outcome), "{formula}");
    }
}

#[test]
fn new_rows_get_the_functions_of_the_fitted_ones() {
    let References { table: fitted, new, .. } = references();
    let formula = Formula::parse(&new.formula).unwrap();
    let design = FormulaDesign::new(&formula, &table(&fitted), &FormulaOptions::default()).unwrap();
    let rows = design.encoding.encode(&table(&new.table)).unwrap();
    compare(&new.formula, &rows.x, &new.values, 1e-9);
}
