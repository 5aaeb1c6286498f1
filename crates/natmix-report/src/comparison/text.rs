//! A comparison as text with aligned columns.

use super::{ComparedModel, Comparison, named, with_error};
use crate::number;

/// The comparison as text.
pub fn text(comparison: &Comparison) -> String {
    let mut parts = Vec::new();
    let outcome = comparison.outcome.as_ref().map_or(String::new(), |outcome| format!(" of `{outcome}`"));
    if let Some(rows) = comparison.rows {
        let title =
            format!("Leave-one-out cross-validation{outcome}, {} rows (larger is better)", number::count(rows as u64));
        let head = ["model", "log density", "se", "difference", "se", "parameters", "worst k", "k > 0.7", "weight"];
        parts.push(table(&title, &head, comparison.models.iter().filter_map(loo_line).collect()));
    }
    let evidence: Vec<Vec<String>> = comparison.models.iter().filter_map(evidence_line).collect();
    if evidence.len() > 1 {
        let head = ["model", "log evidence", "se", "log Bayes factor", "se", "probability", "se"];
        parts.push(table("Evidence (depends on the priors)", &head, evidence));
    }
    parts.push(comparison.findings.iter().map(|finding| format!("{finding}\n")).collect());
    parts.push(comparison.warnings.iter().map(|warning| format!("note: {warning}\n")).collect());
    parts.retain(|part: &String| !part.is_empty());
    parts.join("\n")
}

fn loo_line(model: &ComparedModel) -> Option<Vec<String>> {
    let loo = model.loo.as_ref()?;
    let ([elpd, se], [difference, difference_se]) = (with_error(loo.elpd, loo.se), loo.difference_cells());
    Some(vec![
        named(model),
        elpd,
        se,
        difference,
        difference_se,
        number::significant(loo.p_loo, 3),
        number::fixed(loo.worst_k_hat, 2),
        number::count(loo.k_hat_above as u64),
        number::fixed(loo.weight, 3),
    ])
}

fn evidence_line(model: &ComparedModel) -> Option<Vec<String>> {
    let evidence = model.evidence.as_ref()?;
    Some([named(model)].into_iter().chain(evidence.log_cells()).chain(evidence.probability_cells()).collect())
}

/// A table with aligned columns.
fn table(title: &str, head: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| -> String {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let space = " ".repeat(width(column) - cell.chars().count());
            if column == 0 { format!("{cell}{space}") } else { format!("  {space}{cell}") }
        });
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    format!("{title}\n{}", all.iter().map(line).collect::<String>())
}
