//! The demo's page, its pictures as files, and its tables.

use super::measure::Measured;
use super::{Demo, DemoSet};
use super::{findings, picture};
use crate::reproduce::curves;
use natmix_report::figure::{Scene, png, svg};
use natmix_report::html::escape;
use natmix_report::{number, page};
use std::path::Path;

/// What to look for, for first-time readers.
const LOOK_FOR: &str = "From left to right components are added. Thin lines are the boundaries of single components: where they \
    coincide, the components decide alike, as copies of one function with its hidden units in another order would. In the lower row \
    the predictive entropy is high where the network is uncertain. Below each picture stands what its fits show.";

/// How the fits were made, by default and with the settings of the draft.
const BY_DEFAULT: &str = "A network 2-10-1 with max(x, 0) units has 41 weights, each with prior N(0, 1). Their posterior is fitted by a \
    mixture of K Gaussians with full covariances (method component-draws). Five components are fitted alone from random \
    starts until they converge; the best K of them start the mixture of K, which is then fitted as a whole. So K = 1 is the \
    best of five starts. Predictions average over 200 draws per component. The ELBO and its standard error come from fresh draws. \
    The paper's points are the 100 of its own pictures; the crossed blobs are ours.";
const BY_DRAFT: &str = "The settings of the draft: 500 epochs of minibatches of 10 rows, 100 draws per component (of the mixture in \
    Algorithm 1), all components at once from random starts; it states no step size (0.02 here). Each of its rules runs as it \
    stands, apart from errors of sign: see the errata. Points of the curves average the ELBO over 50 steps, each estimated \
    from one minibatch. Predictions average over 200 draws per component; the ELBO and its standard error come from 10,000 fresh \
    draws and all rows.";

/// Columns of a table: heading and value.
type DemoColumn = (&'static str, fn(&Measured) -> String);
const COLUMNS: [DemoColumn; 9] = [
    ("K", |fit| fit.components.to_string()),
    ("ELBO", |fit| format!("{} ± {}", number::fixed(fit.elbo, 2), number::fixed(fit.elbo_se, 2))),
    ("test accuracy", |fit| number::percent(fit.test_accuracy)),
    ("test log lik.", |fit| number::fixed(fit.test_log_likelihood, 4)),
    ("best component", |fit| number::fixed(fit.best_component, 4)),
    ("components differ", |fit| number::fixed(fit.divergence, 4)),
    ("entropy on data", |fit| number::fixed(fit.entropy_on_data, 3)),
    ("off data", |fit| number::fixed(fit.entropy_off_data, 3)),
    ("seconds", |fit| number::fixed(fit.seconds, 2)),
];

/// Writes `demo.json`, `report.html` and the pictures.
pub fn write(dir: &Path, demo: &Demo) -> std::io::Result<()> {
    let mut cards = String::new();
    for set in &demo.sets {
        let scene = picture::draw(set);
        save(dir, &set.name, &scene)?;
        cards += &card(set, &scene);
        if !set.curves.is_empty() {
            let scene = elbo_curves(set);
            save(dir, &format!("{}-elbo", set.name), &scene)?;
            cards += &format!(
                "<section class=\"card\"><h2>{}: ELBO</h2><figure><div class=\"box scroll\">{}</div></figure></section>\n",
                escape(&set.title),
                svg::inline(&scene)
            );
        }
        if !set.methods.is_empty() {
            cards += &methods(set);
        }
    }
    std::fs::write(dir.join("demo.json"), serde_json::to_string_pretty(demo)?)?;
    let body = format!(
        "<header><p class=\"kind\">natmix demo</p><h1>Decision boundaries of a small Bayesian network</h1></header>\n\
         <section class=\"card\"><h2>What to look for</h2><p class=\"sentence\">{}</p></section>\n{cards}\
         <section class=\"card\"><h2>How it was made</h2><p class=\"sentence\">{}</p></section>\n\
         <footer>natmix {}, seed {}, {}. Figures: <code>demo.json</code>, pictures: <code>figures/</code>.</footer>",
        escape(LOOK_FOR),
        escape(if demo.paper { BY_DRAFT } else { BY_DEFAULT }),
        demo.version,
        demo.seed,
        number::duration(demo.seconds),
    );
    std::fs::write(dir.join("report.html"), page::document("natmix demo: decision boundaries", &body))
}

fn save(dir: &Path, name: &str, scene: &Scene) -> std::io::Result<()> {
    let whole = Scene::grid(std::slice::from_ref(scene), 1, scene.title.clone());
    let file = |ending| dir.join("figures").join(name).with_extension(ending);
    std::fs::write(file("svg"), svg::file(&whole))?;
    std::fs::write(file("png"), png::encode(&whole)?)
}

/// The ELBO over the steps; what lies more than 60 nats below the best is cut off.
fn elbo_curves(set: &DemoSet) -> Scene {
    let values = set.curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
    let best = values.filter(|elbo| elbo.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    curves::draw("ELBO, averaged over 50 steps", &set.curves, (best - 60.0, f64::INFINITY))
}

fn card(set: &DemoSet, scene: &Scene) -> String {
    let head: String = COLUMNS.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let row = |fit: &Measured| -> String {
        let cells = COLUMNS.iter().skip(1).map(|(_, value)| format!("<td>{}</td>", escape(&value(fit))));
        format!("<tr><th>{}</th>{}</tr>", fit.components, cells.collect::<String>())
    };
    let rows: String = set.fits.iter().map(row).collect();
    format!(
        "<section id=\"{}\" class=\"card\"><h2>{}</h2><figure><div class=\"box scroll\">{}</div><figcaption>{} points, {}. Above: \
         predicted probability (blue class 0, orange class 1), the boundary of the mixture (thick) and of each component \
         with at least 1% of the weight (thin). Below: predictive entropy, none (white or black) to log 2 (purple).</figcaption></figure>\
         <div class=\"box\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"sentence\">{}</p><p class=\"aside\">Test scores are those of the averaged prediction on {} fresh points, the log likelihood per point. \
         \"Components differ\" is the mean Jensen-Shannon divergence of their predictions over the picture. Entropies are means in \
         nats; \"off data\" means farther from every point than 15% of the picture's side. Hidden units can be permuted without \
         changing the function: K such copies of one component gain log K nats of ELBO, {} for K = {}; the divergence of the \
         predictions shows how far the components are more than copies.</p></section>\n",
        set.name,
        escape(&set.title),
        svg::inline(scene),
        set.rows,
        escape(&set.about),
        escape(&findings::sentences(set).join(" ")),
        set.test_rows,
        number::fixed(set.fits.last().map_or(0.0, |fit| fit.symmetry), 2),
        set.fits.last().map_or(1, |fit| fit.components)
    )
}

fn methods(set: &DemoSet) -> String {
    let row = |row: &super::methods::MethodRow| {
        let elbo = format!("{} ± {}", number::fixed(row.elbo, 2), number::fixed(row.elbo_se, 2));
        let cells = [
            row.components.to_string(),
            elbo,
            number::count(row.evals),
            number::count(row.iterations),
            number::fixed(row.seconds, 2),
        ];
        let cells: String = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr><th>{}</th>{cells}</tr>", row.method)
    };
    let rows: String = set.methods.iter().map(row).collect();
    format!(
        "<section class=\"card\"><h2>{}: every method</h2><div class=\"box\"><table><thead><tr><th>method</th><th>K</th><th>ELBO</th>\
         <th>evaluations</th><th>iterations</th><th>seconds</th></tr></thead><tbody>{rows}</tbody></table></div>\
         <p class=\"aside\">Each from the same random start with the same number of evaluations of the target, far fewer than the fits \
         above had. bbvi uses values only, vogn has a diagonal covariance, and von uses the Gauss-Newton matrix instead of \
         the Hessian.</p></section>\n",
        set.title
    )
}

/// The table for a terminal.
pub fn text_table(set: &DemoSet) -> String {
    let mut text = format!("{}: {} points, {}\n", set.title, set.rows, set.about);
    let columns = COLUMNS.map(|(name, value)| {
        let cells: Vec<String> = set.fits.iter().map(value).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).fold(name.chars().count(), usize::max);
        (name.to_owned(), cells, width)
    });
    let mut line = |cell: &dyn Fn(usize) -> String| {
        let cells: Vec<String> =
            columns.iter().enumerate().map(|(j, (_, _, width))| format!("{:>width$}", cell(j))).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    };
    line(&|j| columns[j].0.clone());
    for i in 0..set.fits.len() {
        line(&|j| columns[j].1[i].clone());
    }
    for sentence in findings::sentences(set) {
        text += &format!("  {sentence}\n");
    }
    text
}
