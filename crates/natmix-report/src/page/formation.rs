//! The section on how the mixture formed: a picture with a slider. Without scripts it shows the final mixture.

use crate::figure::svg;
use crate::figures::NARROW;
use crate::figures::formation::{FormationPicture, FormationScales, Marks, SIDE};
use crate::formation::{Formation, Moment};
use crate::html::escape;
use crate::number;
use serde_json::{Value, json};

/// The only script of a page. It is allowed by its digest, so that nothing else can run.
const SCRIPT: &str = include_str!("formation.js");
/// `openssl dgst -sha256 -binary formation.js | base64`; the browser tests fail if it is wrong.
const DIGEST: &str = "sha256-H6sJDbclNh+BlOTQ6RXRy/fCI2VD9Reo+6JvMhnYFo0=";
/// Width of the wide picture.
const WIDE: f64 = 720.0;
/// Points of the bell curve shared by all components of a one-dimensional density, and its half-width in standard
/// deviations.
const BELL: usize = 61;
const BELL_REACH: f64 = 3.8;

/// The section, and what the content security policy must allow for it; both empty if there is nothing to show.
pub fn section(formation: Option<&Formation>, parameters: usize) -> (String, String) {
    let Some((formation, stage)) = formation.and_then(|formation| Some((formation, FormationScales::new(formation)?)))
    else {
        return Default::default();
    };
    let marks: Vec<Marks> = formation.moments.iter().map(|moment| stage.marks(moment)).collect();
    let readouts: Vec<[String; 4]> = formation.moments.iter().map(readout).collect();
    let data = json!({"readouts": readouts, "marks": marks.iter().map(numbers).collect::<Vec<Value>>()});
    let (Some(last), Some(shown)) = (marks.last(), readouts.last()) else { return Default::default() };
    let last = elements(last);
    let picture = |width: f64, name: &str| {
        let FormationPicture { scene, panel } = stage.draw(width);
        let (w, h) = (panel.right - panel.left, panel.bottom - panel.top);
        let over = format!(
            "<clipPath id=\"formation-{name}\"><rect x=\"{0}\" y=\"{1}\" width=\"{w}\" height=\"{h}\"/></clipPath>\
             <g clip-path=\"url(#formation-{name})\"><g class=\"stage\" transform=\"translate({0} {1}) scale({2} {3})\">{last}</g></g>",
            panel.left,
            panel.top,
            w / SIDE,
            h / SIDE
        );
        format!("<div class=\"{name}\">{}</div>", svg::inline_under(&scene, &over))
    };
    let figures: String = ["Iteration", "Evaluations", "ELBO", "Components"]
        .iter()
        .zip(shown)
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", escape(value)))
        .collect();
    let most = formation.moments.len() - 1;
    // The JSON contains no user text, so nothing in it can close the element.
    let section = format!(
        "<section id=\"formation\" class=\"card whole\"><h2>How the mixture formed</h2><figure>\
         <div class=\"film\"><div>{}{}{}</div><dl class=\"figures plain\">{figures}</dl>\
         <div class=\"controls\" hidden=\"\"><button type=\"button\">Play</button>\
         <input type=\"range\" min=\"0\" max=\"{most}\" step=\"1\" value=\"{most}\" aria-label=\"Moment of the run\"/></div></div>\
         <figcaption>{}</figcaption></figure></section>\n\
         <script type=\"application/json\" id=\"formation-data\">{data}</script>\n<script>{SCRIPT}</script>\n",
        bell(formation),
        picture(WIDE, "wide"),
        picture(NARROW, "narrow"),
        escape(&caption(formation, parameters)),
    );
    (section, format!("; script-src '{DIGEST}'"))
}

fn readout(moment: &Moment) -> [String; 4] {
    let [iteration, evals, components] =
        [moment.iteration, moment.evals, moment.weights.len() as u64].map(number::count);
    // Hundredths of a nat are enough in an animation.
    [iteration, evals, number::rounded(moment.elbo, 0.1), components]
}

fn caption(formation: &Formation, parameters: usize) -> String {
    let scale = if formation.fitted_scale { ", on the scale that was fitted" } else { "" };
    match formation.names.len() {
        1 => format!(
            "Orange: the density of the mixture, and each component below it, more opaque with more weight. Blue: the final \
             density{scale}."
        ),
        shown => {
            let which = if shown < parameters {
                format!(
                    " Shown are the two of {parameters} parameters in which the components moved and differ most{scale}."
                )
            } else if formation.fitted_scale {
                " Shown are the parameters on the scale that was fitted.".into()
            } else {
                String::new()
            };
            format!(
                "Orange: one and two standard deviations of each component, more opaque with more weight. Blue: the \
                 regions that hold 50% (thick) and 90% (thin) of the final mixture.{which}"
            )
        }
    }
}

/// The numbers that the script draws from.
fn numbers(marks: &Marks) -> Value {
    match marks {
        Marks::Ellipses(ellipses, ink) => json!({"ellipses": ellipses, "ink": ink}),
        Marks::Bells(bells, curve) => json!({"bells": bells, "curve": curve}),
    }
}

/// The marks as the script would draw them.
fn elements(marks: &Marks) -> String {
    match marks {
        Marks::Ellipses(ellipses, ink) => {
            let ellipses: String = ellipses
                .iter()
                .map(|[x, y, a, b, turn, strength]| {
                    format!(
                        "<g transform=\"translate({x} {y}) rotate({turn})\" opacity=\"{strength}\">\
                         <ellipse class=\"two-sd\" rx=\"{}\" ry=\"{}\"/><ellipse class=\"one-sd\" rx=\"{a}\" ry=\"{b}\"/></g>",
                        2.0 * a,
                        2.0 * b
                    )
                })
                .collect();
            format!("<g fill-opacity=\"{ink}\">{ellipses}</g>")
        }
        Marks::Bells(bells, curve) => {
            let bells: String = bells
                .iter()
                .map(|[x, sd, height, strength]| {
                    format!(
                        "<use href=\"#formation-bell\" transform=\"translate({x} {SIDE}) scale({sd} {height})\" \
                         opacity=\"{strength}\"/>"
                    )
                })
                .collect();
            format!("{bells}<path class=\"curve\" d=\"{curve}\"/>")
        }
    }
}

/// The bell curve that the components of a one-dimensional density are copies of.
fn bell(formation: &Formation) -> String {
    if formation.names.len() > 1 {
        return String::new();
    }
    let point = |i: usize| {
        let x = BELL_REACH * (2.0 * i as f64 / (BELL - 1) as f64 - 1.0);
        format!("L{x:.2} {:.4}", -(-0.5 * x * x).exp())
    };
    let points: String = (0..BELL).map(point).collect();
    format!(
        "<svg class=\"defs\" aria-hidden=\"true\" width=\"0\" height=\"0\"><defs>\
         <path id=\"formation-bell\" class=\"bell\" d=\"M-{BELL_REACH} 0{points}L{BELL_REACH} 0Z\"/></defs></svg>"
    )
}
