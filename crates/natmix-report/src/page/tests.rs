//! The page is complete and self-contained, and copes with any report.

mod samples;

use std::collections::HashSet;

use super::*;
use crate::{ComponentSummary, Parameter, Scores};
use samples::{Sample, bad, empty, formation, logistic, three_modes, with_chains};

fn page(sample: &Sample) -> String {
    let html = page_html(&sample.report, &sample.trace, &sample.draws, sample.formation.as_ref());
    check(&html);
    html
}

/// The page with its scripts emptied, and their contents.
fn without_scripts(html: &str) -> (String, Vec<&str>) {
    let (mut kept, mut scripts, mut rest) = (String::new(), Vec::new(), html);
    while let Some(at) = rest.find("<script") {
        let start = at + rest[at..].find('>').unwrap() + 1;
        let end = start + rest[start..].find("</script>").unwrap();
        kept += &rest[..start];
        scripts.push(&rest[start..end]);
        rest = &rest[end..];
    }
    (kept + rest, scripts)
}

#[test]
fn coefficients_and_groups_have_their_pictures() {
    let mut sample = with_chains();
    let names = |count: usize| -> Vec<String> { (0..count).map(|i| format!("n{i}")).collect() };
    let count = sample.report.parameters.len();
    assert!(count >= 4, "an intercept, a coefficient, and two groups");
    sample.report.model.coefficients = Some(crate::Coefficients {
        count: 2,
        intercept: true,
        spreads: vec![1.0, 2.0],
        ratio: Some("odds ratio".into()),
        classes: None,
        groups: vec![crate::GroupEffects {
            name: "clinic".into(),
            levels: names(count - 2),
            columns: vec!["(intercept)".into()],
            first_effect: 2,
        }],
    });
    let html = page(&sample);
    for wanted in ["id=\"coefficients\"", "id=\"groups\"", "Odds ratios", "by one standard deviation"] {
        assert!(html.contains(wanted), "{wanted}");
    }
    // Single groups have no marginals of their own.
    assert!(html.contains(&format!("Shown are 2 of {count}")), "{html}");
    // Indices beyond the parameters, as in a damaged file, leave the pictures out.
    let about = sample.report.model.coefficients.as_mut().unwrap();
    (about.count, about.groups[0].first_effect) = (count + 7, count + 9);
    assert!(!page(&sample).contains("id=\"groups\""));
}

#[test]
fn classes_have_a_panel_each_against_the_reference() {
    let mut sample = three_modes();
    sample.report.model.kind = "softmax".into();
    sample.report.model.coefficients = Some(crate::Coefficients {
        count: 2,
        intercept: true,
        spreads: vec![1.0, 2.0],
        ratio: Some("odds ratio".into()),
        classes: Some(crate::ClassCoefficients {
            reference: "bus".into(),
            others: ["<car>", "train"].map(String::from).to_vec(),
            columns: ["(intercept)", "distance"].map(String::from).to_vec(),
        }),
        groups: vec![],
    });
    let probability = |name: &str| crate::ClassEffect { name: name.into(), expected: vec![[0.2, 0.3, 0.4]; 2] };
    sample.report.conditional_effects = vec![crate::ConditionalEffect {
        column: "distance".into(),
        outcome: "probability of each way".into(),
        values: vec![0.0, 1.0],
        levels: None,
        expected: vec![],
        classes: ["bus", "<car>", "train"].map(probability).to_vec(),
    }];
    let html = page(&sample);
    let [coefficients, ratios] = ["coefficients", "ratios"]
        .map(|id| html.split(&format!("id=\"{id}\"")).nth(1).unwrap().split("</section>").next().unwrap());
    for text in ["log odds of &lt;car&gt; against bus", "log odds of train against bus"] {
        assert!(coefficients.contains(text), "{text}");
    }
    // One coefficient for each class beside the intercepts: the second and the last of four parameters.
    assert_eq!(ratios.matches("<tr><th scope=\"row\">").count(), 2);
    assert!(ratios.contains(">z2<") && ratios.contains(">z4<") && ratios.contains("against bus"));
    assert!(html.contains("How likely each class is"));
    // More classes than there are parameters for, as in a damaged file.
    sample.report.model.coefficients.as_mut().unwrap().classes.as_mut().unwrap().others.push("tram".into());
    assert!(!sections(&page(&sample)).contains(&"ratios"));
}

#[test]
fn shrinkage_and_survival_have_their_sections() {
    let mut sample = logistic();
    let estimates = crate::GroupEstimates {
        grouping: "clinic".into(),
        column: "(intercept)".into(),
        levels: ["<a>", "b"].map(String::from).to_vec(),
        rows: vec![3, 1200],
        partial: vec![[0.0, 0.5, 1.0], [1.0, 1.1, 1.2]],
        alone: vec![None, Some([1.0, 1.1, 1.2])],
        shared: 0.9,
        pooled: Some(1.0),
    };
    sample.report.group_estimates = vec![estimates.clone()];
    sample.report.survival_check = Some(crate::SurvivalCheck {
        outcome: "days".into(),
        times: vec![0.0, 1.0, 2.0],
        observed: vec![[1.0; 3], [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]],
        replicated: vec![[1.0; 3], [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]],
        rows: 1200,
        censored: 300,
    });
    let html = page(&sample);
    assert!(["shrinkage", "survival"].iter().all(|id| sections(&html).contains(id)));
    for text in
        ["&lt;a&gt; (3)", "b (1,200)", "clinic: intercept (log odds)", "no estimate of its own", "300 of 1,200 rows"]
    {
        assert!(html.contains(text), "{text}");
    }
    // Several are small panels.
    sample.report.group_estimates = vec![estimates.clone(), crate::GroupEstimates { column: "x".into(), ..estimates }];
    assert!(page(&sample).contains("clinic: x (log odds per unit)"));
    sample.report.group_estimates.iter_mut().for_each(|found| found.rows.clear());
    assert!(!sections(&page(&sample)).contains(&"shrinkage"));
}

/// Every element closed, every id unique, no URL, no non-finite number, no script but our own.
fn check(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut ids = HashSet::new();
    let (text, scripts) = without_scripts(html);
    let text = text.replace("<!DOCTYPE html>", "");
    if let [data, code] = &scripts[..] {
        assert!(!data.contains('<') && serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
        assert_eq!(*code, include_str!("formation.js"));
        assert!(html.contains("script-src 'sha256-") && !html.contains("script-src 'unsafe"));
    } else {
        assert!(scripts.is_empty() && !html.contains("script-src"));
    }
    let (before, style, after) = {
        let (before, rest) = text.split_once("<style>").unwrap();
        let (style, after) = rest.split_once("</style>").unwrap();
        (before, style, after)
    };
    assert_eq!(style.matches('{').count(), style.matches('}').count());
    for piece in [before, after].into_iter().flat_map(|part| part.split('<').skip(1)) {
        let (tag, text) = piece.split_once('>').unwrap_or_else(|| panic!("tag without end: {piece}"));
        assert!(!text.contains('>'), "stray bracket: {text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes: {tag}");
        let name = tag.trim_matches('/').split_whitespace().next().unwrap_or_default();
        if let Some(id) = tag.split_once(" id=\"").and_then(|(_, rest)| rest.split('"').next()) {
            assert!(ids.insert(id.to_owned()), "id twice: {id}");
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closing {name}");
        } else if !tag.ends_with('/') && !["meta", "link"].contains(&name) {
            open.push(name);
        }
        assert!(!["img", "iframe", "object"].contains(&name), "{name}");
        for word in ["NaN", "inf", "http:", "https:", "src="] {
            assert!(!tag.contains(word), "{word} in {tag}");
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for word in ["http:", "https:", "@import", "url(", "@font-face"] {
        assert!(!style.contains(word), "{word} in the style");
    }
}

fn sections(html: &str) -> Vec<&str> {
    html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn a_density_has_no_data_sections() {
    let html = page(&three_modes());
    let expected = ["verdict", "figures", "elbo", "weights", "marginals", "pairs", "parameters", "settings"];
    assert_eq!(sections(&html), expected);
    assert!(html.contains("class=\"verdict good\"") && html.contains("You can trust this fit"));
    assert!(html.contains("3 modes") && html.contains("50%") && html.contains("✓ below the limit 0.70"));
    assert!(html.contains("−0.0213") && html.contains("97%") && html.contains("22,240"));
}

#[test]
fn a_regression_has_data_sections_and_one_component_needs_no_weights() {
    let html = page(&logistic());
    let expected = [
        "verdict",
        "figures",
        "elbo",
        "marginals",
        "pairs",
        "parameters",
        "calibration",
        "roc",
        "scores",
        "loo",
        "settings",
    ];
    assert_eq!(sections(&html), expected);
    assert!(html.contains("Shown are 12 of 25") && html.contains("0.7310") && html.contains("area 0.821"));
    assert!(html.contains("0 of 1,000") && html.contains("Normal(0, 25)"));
}

#[test]
fn classes_and_the_distribution_of_the_outcome_have_their_sections() {
    let mut sample = logistic();
    let names: Vec<String> = ["bus", "<car>", "train"].map(String::from).to_vec();
    sample.report.class_predictions = Some(crate::ClassPredictions {
        test: false,
        names: names.clone(),
        confusion: vec![vec![8, 1, 1], vec![2, 1234, 0], vec![0, 0, 0]],
        calibration: vec![vec![(0.1, 0.2, 30), (0.7, 0.6, 20)], vec![(0.5, f64::NAN, 0)], vec![]],
    });
    sample.report.outcome_check = Some(crate::OutcomeCheck {
        outcome: "way".into(),
        edges: vec![-0.5, 0.5, 1.5, 2.5],
        names: Some(names),
        observed: vec![0.2, 0.5, 0.3],
        replicated: vec![[0.1, 0.2, 0.3]; 3],
    });
    let html = page(&sample);
    let ids = sections(&html);
    for wanted in ["outcome", "confusion", "classes"] {
        assert!(ids.contains(&wanted), "{wanted}: {ids:?}");
    }
    assert!(html.contains("<b>1,234</b>") && html.contains("80%") && html.contains("each predicted without itself"));
    // A table that is not square, as in a damaged file, is left out; two classes are each other's mirror image.
    let found = sample.report.class_predictions.as_mut().unwrap();
    found.confusion[1].pop();
    found.names.truncate(2);
    let html = page(&sample);
    assert!(!sections(&html).contains(&"confusion") && !sections(&html).contains(&"classes"));
}

#[test]
fn a_bad_fit_says_so_first_and_hostile_names_stay_text() {
    let html = page(&bad());
    assert!(html.contains("class=\"verdict bad\"") && html.contains("Do not trust this fit"));
    assert!(html.contains("try --max-evals 200000") && html.contains("✗ above the limit 0.70"));
    assert!(html.contains("21 others") && html.contains("17 of 512"));
    assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;") && !html.contains("<script"));
    assert!(!html.contains("<b>") && !html.contains('\u{202E}'));
    assert!(sections(&html).contains(&"residuals") && !sections(&html).contains(&"roc"));
    let (answer, first_number) = (html.find("Do not trust").unwrap(), html.find("−1423.8").unwrap());
    assert!(answer < first_number);
}

#[test]
fn chains_have_traces_ranks_and_energies() {
    let sample = with_chains();
    let html = page(&sample);
    let ids = sections(&html);
    assert!(ids.windows(4).any(|part| part == ["parameters", "traces", "ranks", "energy"]), "{ids:?}");
    assert!(html.contains("1.0230") && html.contains("✗ not below the limit 1.01"), "R-hat");
    assert!(html.contains("effective draws") && html.contains("20,000 for chains") && html.contains("E-BFMI"));
    // The parameter on which they agree least comes first.
    let traces = html.split("id=\"traces\"").nth(1).unwrap();
    assert!(traces.find("Trace of scale").unwrap() < traces.find("Trace of z1").unwrap());
    // Draws that are none of chains have no such pictures.
    let plain = Sample { draws: Draws { chains: None, ..sample.draws.clone() }, ..with_chains() };
    assert!(!sections(&page(&plain)).contains(&"traces"));
    // Numbers that are not finite are left out.
    let mut broken = with_chains();
    broken.draws.values[3] = f64::NAN;
    broken.report.parameters[0].r_hat = Some(f64::NAN);
    let chains = broken.draws.chains.as_mut().unwrap();
    chains.energy = vec![1.0; chains.energy.len()];
    assert!(!sections(&page(&broken)).contains(&"energy"));
}

#[test]
fn the_formation_section_works_without_a_script() {
    for dim in [1, 2] {
        let mut sample = three_modes();
        let formation = formation(dim, &["<script>alert(1)</script>", "b & c"]);
        let html = page(&Sample { formation: Some(formation.clone()), ..three_modes() });
        let ids = sections(&html);
        assert!(ids.windows(2).any(|pair| pair == ["weights", "formation"]), "{ids:?}");
        assert!(ids.contains(&"formation-data") && html.contains("How the mixture formed"));
        // Without a script: the last moment, twice, and its figures; the slider is hidden.
        let marks = if dim == 1 { "<use " } else { "class=\"one-sd\"" };
        let count = html.matches(marks).count() - include_str!("formation.js").matches(marks).count();
        assert_eq!(count, 2 * formation.moments[2].weights.len());
        for text in ["<dd>30</dd>", "<dd>1,200</dd>", "<dd>−1.50</dd>", "<dd>3</dd>", "class=\"controls\" hidden"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("alert(1)&lt;/script&gt;") && !html.contains("<script>alert"));
        // No section if there is nothing to show.
        sample.formation = Some(Formation { moments: vec![], ..formation });
        assert!(!sections(&page(&sample)).contains(&"formation"));
    }
}

#[test]
fn degenerate_moments_give_a_valid_page() {
    let strange = [f64::MAX, f64::MIN, 0.0, -1.0, 5e-324, f64::NAN];
    for (i, x) in strange.into_iter().enumerate() {
        for dim in [1, 2] {
            let mut sample = Sample { formation: Some(formation(dim, &["a", "b"])), ..three_modes() };
            for (at, moment) in sample.formation.iter_mut().flat_map(|formation| &mut formation.moments).enumerate() {
                moment.elbo = x;
                moment.means[at % 3][0] = x;
                moment.covariances[(at + i) % 3].iter_mut().flatten().for_each(|entry| *entry = x);
                moment.weights[(at + 1) % 3] = 0.0;
            }
            page(&sample);
        }
    }
}

#[test]
fn the_heading_follows_the_verdict() {
    let mut sample = three_modes();
    sample.report.verdict.reasons.push("few effective draws: try more components".into());
    assert!(page(&sample).contains("Use this fit with care"));
    sample.report.verdict.reasons.clear();
    // The answer is judged, not the way to it.
    sample.report.stop.converged = false;
    assert!(page(&sample).contains("You can trust this fit"));
    sample.report.verdict.trusted = None;
    assert!(page(&sample).contains("Not judged"));
}

#[test]
fn an_empty_report_still_has_its_verdict() {
    let html = page(&empty());
    assert_eq!(sections(&html), ["verdict", "figures", "settings"]);
    assert!(html.contains("Nothing was fitted.") && html.contains("not known"));
}

#[test]
fn non_finite_numbers_give_a_valid_page() {
    let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.0, -0.0, 5e-324];
    for (i, x) in strange.into_iter().enumerate() {
        let y = strange[(i + 3) % strange.len()];
        let mut sample = logistic();
        let report = &mut sample.report;
        (report.elbo, report.log_evidence) = (ReportedEstimate { mean: x, se: y }, ReportedEstimate { mean: y, se: x });
        (report.k_hat, report.k_threshold, report.ess, report.seconds) = (x, y, x, y);
        report.components = vec![
            ComponentSummary { weight: x, mean: vec![y], sd: vec![] },
            ComponentSummary { weight: y, mean: vec![], sd: vec![x] },
        ];
        report.parameters[0] =
            Parameter { name: String::new(), mean: x, sd: y, q05: y, q50: x, q95: y, r_hat: Some(x), ess: Some(y) };
        let (calibration, roc) = (vec![(x, y, 0), (y, x, usize::MAX)], vec![(x, y), (y, x)]);
        report.train =
            Some(Scores { calibration, roc, residuals: vec![(x, y), (y, x)], nll: Some(x), ..Scores::default() });
        if let Some(loo) = &mut report.loo {
            (loo.elpd, loo.se, loo.p_loo, loo.max_k_hat, loo.bad_rows) = (x, y, x, y, usize::MAX);
        }
        for (j, row) in sample.trace.iter_mut().enumerate() {
            (row.elbo, row.se) = if j % 2 == 0 { (x, y) } else { (y, x) };
        }
        sample.draws.values.iter_mut().step_by(2).for_each(|v| *v = x);
        page(&sample);
    }
}

#[test]
fn few_draws_one_parameter_and_ragged_draws_give_a_valid_page() {
    for draws in [0, 1, 2, 3] {
        for parameters in [1, 2, 3] {
            let mut sample = three_modes();
            sample.draws.names.truncate(parameters);
            sample.draws.values.truncate(draws * parameters + draws / 3);
            sample.draws.component.truncate(1);
            sample.trace.truncate(draws);
            page(&sample);
        }
    }
    let mut constant = three_modes();
    constant.draws.values.iter_mut().for_each(|v| *v = 3.0);
    constant.draws.component.iter_mut().for_each(|k| *k = usize::MAX);
    assert!(sections(&page(&constant)).contains(&"marginals"));
}

#[test]
fn many_parameters_give_a_page_of_bounded_size() {
    let mut sample = logistic();
    let (dim, count) = (5000, 40);
    sample.draws.names = (0..dim).map(|j| format!("weight {j}")).collect();
    sample.draws.values = (0..dim * count).map(|i| ((i * 7919) % 1009) as f64).collect();
    sample.draws.component = vec![0; count];
    let first = sample.report.parameters[0].clone();
    sample.report.parameters =
        sample.draws.names.iter().map(|name| Parameter { name: name.clone(), ..first.clone() }).collect();
    let html = page(&sample);
    assert!(html.contains("4,800 more are in report.json") && html.contains("Shown are 12 of 5000"));
    assert!(html.len() < 700_000, "{}", html.len());
}

#[test]
fn files_are_written_and_stale_pictures_removed() {
    let dir = std::env::temp_dir().join(format!("natmix-page-{}", std::process::id()));
    let write = |sample: &Sample| {
        write_page(&dir, &sample.report, &sample.trace, &sample.draws, None).unwrap();
        let mut names: Vec<String> = std::fs::read_dir(dir.join("figures"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let sample = three_modes();
    let expected = ["elbo", "marginals", "pairs", "weights"].map(|n| [format!("{n}.png"), format!("{n}.svg")]).concat();
    assert_eq!(write(&sample), expected);
    assert_eq!(std::fs::read_to_string(dir.join("report.html")).unwrap(), page(&sample));
    let picture = std::fs::read_to_string(dir.join("figures/pairs.svg")).unwrap();
    assert!(picture.starts_with("<?xml") && picture.ends_with("</svg>\n") && picture.contains("xmlns="));
    assert!(std::fs::read(dir.join("figures/pairs.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(write(&empty()).is_empty());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error() {
    let sample = empty();
    let file = std::env::temp_dir().join(format!("natmix-page-file-{}", std::process::id()));
    std::fs::write(&file, "a file, not a folder").unwrap();
    assert!(write_page(&file, &sample.report, &sample.trace, &sample.draws, None).is_err());
    std::fs::remove_file(&file).unwrap();
}
