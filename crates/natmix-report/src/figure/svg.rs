//! Writes a scene as SVG: inside the page, where colours are variables of the page, or as a separate file.
//!
//! Colours are classes, not attributes: `f-NAME` fills and `k-NAME` strokes. So the same markup follows the light
//! or dark theme of the page, and a separate file carries both and shows the light one in programs without media
//! queries.

use std::fmt::Write;

use super::{Anchor, Mark, Point, Scene, TONES, TextLabel, png};
use crate::html::{base64, escape};

/// The element for use inside HTML.
pub fn inline(scene: &Scene) -> String {
    element(scene, "", "", "")
}

/// The element for use inside HTML, with further elements on top of its marks.
pub fn inline_under(scene: &Scene, over: &str) -> String {
    element(scene, "", "", over)
}

/// A separate file.
pub fn file(scene: &Scene) -> String {
    let rules = |pick: fn(&super::Tone) -> [u8; 3]| -> String {
        let rule = |tone| {
            let ([r, g, b], name) = (pick(tone), tone.name);
            format!(".f-{name}{{fill:#{r:02x}{g:02x}{b:02x}}}.k-{name}{{stroke:#{r:02x}{g:02x}{b:02x}}}")
        };
        TONES.iter().map(rule).collect()
    };
    let head = format!(
        "<style>text{{font-family:system-ui,'Segoe UI',Roboto,Helvetica,Arial,sans-serif}}{}\
         @media (prefers-color-scheme:dark){{{}}}</style>\
         <rect class=\"f-surface\" width=\"100%\" height=\"100%\"/>",
        rules(|tone| tone.light),
        rules(|tone| tone.dark)
    );
    let size = format!(
        " xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\"",
        pixels(scene.width),
        pixels(scene.height)
    );
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n", element(scene, &size, &head, ""))
}

fn element(scene: &Scene, attributes: &str, head: &str, tail: &str) -> String {
    let (width, height, title) = (pixels(scene.width), pixels(scene.height), escape(&scene.title));
    let mut out =
        format!("<svg{attributes} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">{head}");
    for mark in &scene.marks {
        push(&mut out, mark);
    }
    out + tail + "</svg>"
}

fn push(out: &mut String, mark: &Mark) {
    match mark {
        Mark::Lines { paths, ink, width, dashed } => {
            let d: String = paths.iter().map(|points| path(points)).collect();
            if !d.is_empty() {
                let (name, dash) = (ink.tone().name, if *dashed { " stroke-dasharray=\"5 4\"" } else { "" });
                *out += &format!(
                    "<path class=\"k-{name}\" d=\"{d}\" fill=\"none\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}/>",
                    pixels(*width)
                );
            }
        }
        Mark::Area { points, ink, opacity } if points.len() > 2 => {
            let name = ink.tone().name;
            *out += &format!("<path class=\"f-{name}\" d=\"{}Z\"{}/>", path(points), faint(*opacity));
        }
        Mark::Dots { centres, radius, ink, opacity } if !centres.is_empty() => {
            *out += &format!("<g class=\"f-{}\"{}>", ink.tone().name, faint(*opacity));
            let radius = pixels(*radius);
            for &(x, y) in centres {
                *out += &format!("<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>", pixels(x), pixels(y));
            }
            *out += "</g>";
        }
        Mark::Area { .. } | Mark::Dots { .. } => {}
        Mark::Raster { corner: (x, y), width, height, columns, colours } => {
            // A heat map that cannot be encoded is empty.
            let Ok(file) = png::encode_raster(*columns, colours) else { return };
            let [x, y, width, height] = [*x, *y, *width, *height].map(pixels);
            *out += &format!(
                "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
                 href=\"data:image/png;base64,{}\"/>",
                base64(&file)
            );
        }
        Mark::Text(label) => push_text(out, label),
    }
}

fn push_text(out: &mut String, label: &TextLabel) {
    let (x, y) = (pixels(label.at.0), pixels(label.at.1));
    let anchor = match label.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let bold = if label.bold { " font-weight=\"600\"" } else { "" };
    let turn = if label.upright { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    *out += &format!(
        "<text class=\"f-{}\" x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor}{bold}{turn}>{}</text>",
        label.ink.tone().name,
        pixels(label.size),
        escape(&label.text)
    );
}

fn path(points: &[Point]) -> String {
    let mut d = String::new();
    for (i, &(x, y)) in points.iter().enumerate() {
        let letter = if i == 0 { 'M' } else { 'L' };
        // Writing to a string cannot fail.
        let _ = write!(d, "{letter}{} {}", pixels(x), pixels(y));
    }
    d
}

fn faint(opacity: f64) -> String {
    if opacity < 1.0 { format!(" fill-opacity=\"{}\"", (opacity * 100.0).round() / 100.0) } else { String::new() }
}

/// Rounds to a tenth of a pixel, which is finer than the eye can see and keeps the page small.
fn pixels(x: f64) -> f64 {
    let rounded = (x.clamp(-1e6, 1e6) * 10.0).round() / 10.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Ink;

    #[test]
    fn marks_become_elements() {
        let mut scene = Scene::new(10.0, 20.0, "a < b");
        scene.line(vec![(0.0, 0.0), (f64::NAN, 1.0), (1.26, 2.0)], Ink::AXIS, 1.0);
        scene.text(TextLabel::new((-0.01, 3.0), "x & y", 12.0, Ink::TEXT).upright());
        assert_eq!(
            inline(&scene),
            "<svg viewBox=\"0 0 10 20\" role=\"img\" aria-label=\"a &lt; b\">\
             <path class=\"k-axis\" d=\"M0 0L1.3 2\" fill=\"none\" stroke-width=\"1\" stroke-linejoin=\"round\"/>\
             <text class=\"f-text\" x=\"0\" y=\"3\" font-size=\"12\" transform=\"rotate(-90 0 3)\">x &amp; y</text></svg>"
        );
        assert!(file(&scene).contains("prefers-color-scheme:dark"));
    }
}
