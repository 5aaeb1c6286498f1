//! The page of a comparison: what it says, the pictures, the tables. Everything is inline.

use super::{ComparedModel, Comparison, joined, named, with_error};
use crate::figure::{Scene, svg};
use crate::figures::{NARROW, differences, weights};
use crate::html::{escape, prose};
use crate::{number, page};

/// Width of the picture of differences, beside that of weights.
const WIDE: f64 = 620.0;

/// The page.
pub fn page_html(comparison: &Comparison) -> String {
    let outcome =
        comparison.outcome.as_ref().map_or(String::new(), |outcome| format!(" of <code>{}</code>", escape(outcome)));
    let rows = comparison.rows.map_or(String::new(), |rows| format!(", {} rows", number::count(rows as u64)));
    let body = [
        format!(
            "<header><p class=\"kind\">Comparison</p><h1>{} models{outcome}{rows}</h1></header>\n",
            comparison.models.len()
        ),
        findings(comparison),
        pictures(comparison),
        loo_table(comparison),
        evidence_table(comparison),
        models(comparison),
        format!("<footer>natmix {}</footer>", env!("CARGO_PKG_VERSION")),
    ]
    .concat();
    page::document("Comparison of models", &body)
}

fn list(heading: &str, class: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let items: String = lines.iter().map(|line| format!("<li>{}</li>", prose(line))).collect();
    format!("<h2>{heading}</h2><ul class=\"{class}\">{items}</ul>")
}

fn findings(comparison: &Comparison) -> String {
    let sentences: String =
        comparison.findings.iter().map(|line| format!("<p class=\"sentence\">{}</p>", prose(line))).collect();
    format!(
        "<section id=\"findings\" class=\"card\"><h2>What the figures say</h2>{sentences}{}</section>\n",
        list("Reasons for caution", "reasons", &comparison.warnings)
    )
}

fn pictures(comparison: &Comparison) -> String {
    let lines: Vec<differences::DifferenceLine> = comparison
        .models
        .iter()
        .filter_map(|model| {
            let loo = model.loo.as_ref()?;
            Some(differences::DifferenceLine {
                name: model.name.clone(),
                difference: loo.difference,
                se: loo.difference_se,
            })
        })
        .collect();
    if lines.len() < 2 {
        return String::new();
    }
    let card = |id: &str, class: &str, heading: &str, inside: String, caption: &str| {
        format!(
            "<section id=\"{id}\" class=\"card {class}\"><h2>{heading}</h2><figure>{inside}<figcaption>{}</figcaption></figure></section>\n",
            escape(caption)
        )
    };
    let [wide, narrow] = [WIDE, NARROW].map(|width| differences::draw(&lines, width));
    let differences = match (wide, narrow) {
        (Some(wide), Some(narrow)) => {
            let most = (1.1 * wide.width).round();
            let [wide, narrow] = [&wide, &narrow].map(svg::inline);
            let inside = format!(
                "<div class=\"wide\" style=\"max-width:{most}px\">{wide}</div><div class=\"narrow\">{narrow}</div>"
            );
            let caption = "Difference of the expected log predictive density to that of the best model; left is worse. Thick bars are one \
                           standard error wide on each side, thin ones two. A model whose thin bar reaches the line may predict as well.";
            card("differences", "whole", "How much worse the others predict", inside, caption)
        }
        _ => String::new(),
    };
    let shares: Vec<(String, f64)> =
        comparison.models.iter().filter_map(|model| Some((model.name.clone(), model.loo.as_ref()?.weight))).collect();
    let weights = |scene: Scene| {
        let caption = "The mixture of the models' predictions that predicts best. A model that adds nothing to the others gets no weight, \
                       even if it predicts nearly as well.";
        card("weights", "half", "Stacking weights", svg::inline(&scene), caption)
    };
    format!(
        "<div class=\"row\">{differences}{}</div>",
        weights::of_models(&shares, 340.0).map(weights).unwrap_or_default()
    )
}

/// A table that scrolls inside its own box.
fn table(id: &str, heading: &str, columns: &[&str], rows: &[Vec<String>], below: &str) -> String {
    let head: String = columns.iter().map(|column| format!("<th scope=\"col\">{column}</th>")).collect();
    let line = |cells: &Vec<String>| {
        let rest: String = cells[1..].iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr><th scope=\"row\">{}</th>{rest}</tr>", cells[0])
    };
    let rows: String = rows.iter().map(line).collect();
    format!(
        "<section id=\"{id}\" class=\"card\"><h2>{heading}</h2><div class=\"box\"><table><thead><tr>{head}</tr></thead>\
         <tbody>{rows}</tbody></table></div><p class=\"aside\">{below}</p></section>\n"
    )
}

fn loo_table(comparison: &Comparison) -> String {
    let line = |model: &ComparedModel| {
        let loo = model.loo.as_ref()?;
        Some(vec![
            escape(&named(model)),
            joined(with_error(loo.elpd, loo.se)),
            joined(loo.difference_cells()),
            number::significant(loo.p_loo, 3),
            number::fixed(loo.worst_k_hat, 2),
            number::count(loo.k_hat_above as u64),
            number::percent(loo.weight),
        ])
    };
    let rows: Vec<Vec<String>> = comparison.models.iter().filter_map(line).collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["model", "log density", "difference", "parameters", "worst k\u{302}", "k\u{302} &gt; 0.7", "weight"];
    let below = "Log density: the sum over rows of the log density of each outcome as predicted from all other rows; larger is better. Parameters: \
                 how many the model effectively uses. k\u{302} of a row tells how much the fit depends on it: above 0.7 its log density is not \
                 reliable, and usually too large. Standard errors follow ±.";
    table("loo", "Leave-one-out cross-validation", &columns, &rows, below)
}

fn evidence_table(comparison: &Comparison) -> String {
    let line = |model: &ComparedModel| {
        let evidence = model.evidence.as_ref()?;
        let [log, log_se, factor, factor_se] = evidence.log_cells();
        let cells = [joined([log, log_se]), joined([factor, factor_se]), escape(&evidence.probability_in_words())];
        Some([escape(&named(model))].into_iter().chain(cells).collect())
    };
    let rows: Vec<Vec<String>> = comparison.models.iter().filter_map(line).collect();
    if rows.len() < 2 {
        return String::new();
    }
    let columns = ["model", "log evidence", "log Bayes factor", "probability"];
    let below = "Log Bayes factor: difference of the log evidence to the largest one. Probability: of each model given the data, if all are equally \
                 likely before. Both depend on the priors of the parameters: a prior that is ten times as wide lowers the log evidence by up to \
                 2.3 per parameter. Standard errors follow ±; they do not know of errors of untrusted fits.";
    table("evidence", "Evidence", &columns, &rows, below)
}

/// What each model is.
fn models(comparison: &Comparison) -> String {
    let trusted = |model: &ComparedModel| match model.trusted {
        Some(true) => "its fit is trusted",
        Some(false) => "its fit cannot be trusted",
        None => "its fit was not judged",
    };
    let line = |model: &ComparedModel| {
        format!("<li><b>{}</b>: {}; {}</li>", escape(&named(model)), prose(&model.summary), trusted(model))
    };
    let lines: String = comparison.models.iter().map(line).collect();
    format!("<section id=\"models\" class=\"card\"><h2>The models</h2><ul class=\"notes\">{lines}</ul></section>\n")
}

#[cfg(test)]
mod tests {
    use super::super::{ComparedEvidence, ComparedLoo};
    use super::*;
    use crate::ReportedEstimate;

    fn model(name: &str, difference: f64) -> ComparedModel {
        let estimate = |mean| ReportedEstimate { mean, se: 0.1 };
        ComparedModel {
            name: name.into(),
            summary: "a linear regression of `y` on 2 coefficients (<b>.csv, 30 rows)".into(),
            trusted: Some(difference > -5.0),
            loo: Some(ComparedLoo {
                elpd: -40.0 + difference,
                se: 3.0,
                difference,
                difference_se: if difference == 0.0 { 0.0 } else { 1.5 },
                p_loo: 2.1,
                worst_k_hat: 0.4,
                k_hat_above: 0,
                bad_rows: 0,
                weight: if difference == 0.0 { 1.0 } else { 0.0 },
            }),
            evidence: Some(ComparedEvidence {
                log_evidence: estimate(-50.0 + difference),
                log_bayes_factor: estimate(difference),
                probability: estimate(0.5),
            }),
        }
    }

    fn comparison(models: Vec<ComparedModel>) -> Comparison {
        let (findings, warnings) = (vec!["a is best.".into()], vec!["do not rely on <b>".into()]);
        let (rows, outcome) = (Some(30), Some("y<i>".into()));
        Comparison { rows, left_out: rows, outcome, models, stacking_gap: Some(0.0), findings, warnings }
    }

    #[test]
    fn everything_is_shown_and_escaped() {
        let page = page_html(&comparison(vec![model("a", 0.0), model("<script>", -6.0)]));
        for part in
            ["id=\"differences\"", "id=\"weights\"", "id=\"loo\"", "id=\"evidence\"", "−6.0 ± 1.5", "(not trusted)"]
        {
            assert!(page.contains(part), "{part}");
        }
        assert!(
            page.contains("&lt;script&gt;")
                && !page.contains("<script")
                && !page.contains("<i>")
                && !page.contains("(<b>.csv")
        );
        assert!(page.contains("do not rely on &lt;b&gt;") && page.contains("default-src 'none'"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let evidence_only = |name| ComparedModel { loo: None, ..model(name, 0.0) };
        let page = page_html(&comparison(vec![evidence_only("a"), evidence_only("b")]));
        assert!(!page.contains("id=\"loo\"") && !page.contains("<svg") && page.contains("id=\"evidence\""));
        let unknown = ComparedModel { evidence: None, loo: None, ..model("c", 0.0) };
        let page = page_html(&comparison(vec![unknown.clone(), unknown]));
        assert!(!page.contains("id=\"evidence\"") && page.contains("id=\"models\""));
    }
}
