//! Width and outline of a text, from the built-in font.
//!
//! The page uses the reader's own font, which may be somewhat wider, so layout uses [`width`], not [`advance`].

use std::sync::OnceLock;

use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, MetadataProvider};
use tiny_skia::{Path, PathBuilder};

fn font(bold: bool) -> Option<&'static FontRef<'static>> {
    static PLAIN: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    static BOLD: OnceLock<Option<FontRef<'static>>> = OnceLock::new();
    if bold {
        BOLD.get_or_init(|| FontRef::new(dejavu::sans_condensed::bold()).ok()).as_ref()
    } else {
        PLAIN.get_or_init(|| FontRef::new(dejavu::sans_condensed::regular()).ok()).as_ref()
    }
}

/// Width to reserve for a text on one line, in any sans-serif font.
pub fn width(text: &str, size: f64, bold: bool) -> f64 {
    1.12 * advance(text, size, bold)
}

/// Width of a text on one line in the built-in font.
pub fn advance(text: &str, size: f64, bold: bool) -> f64 {
    let Some(font) = font(bold) else { return 0.6 * size * text.chars().count() as f64 };
    let metrics = font.glyph_metrics(Size::new(size as f32), LocationRef::default());
    let charmap = font.charmap();
    let one = |c| metrics.advance_width(charmap.map(c).unwrap_or_default()).unwrap_or(0.0);
    text.chars().map(|c| f64::from(one(c))).sum()
}

/// The text, truncated with an ellipsis if it is wider than `room`.
pub fn fit(text: &str, size: f64, bold: bool, room: f64) -> String {
    // A name may be arbitrarily long, but no line holds more than a few hundred letters.
    let head: String = text.chars().take(300).collect();
    if head.len() == text.len() && width(&head, size, bold) <= room {
        return head;
    }
    let mut cut: Vec<char> = head.chars().collect();
    loop {
        let candidate: String = cut.iter().collect::<String>().trim_end().to_owned() + "…";
        if cut.is_empty() || width(&candidate, size, bold) <= room {
            return candidate;
        }
        cut.pop();
    }
}

/// The outline of a text that starts at the origin, y downwards.
pub fn outline(text: &str, size: f64, bold: bool) -> Option<Path> {
    let font = font(bold)?;
    let (charmap, glyphs) = (font.charmap(), font.outline_glyphs());
    let metrics = font.glyph_metrics(Size::new(size as f32), LocationRef::default());
    let mut pen = Pen { path: PathBuilder::new(), x: 0.0 };
    for c in text.chars() {
        let id = charmap.map(c).unwrap_or_default();
        if let Some(glyph) = glyphs.get(id) {
            let settings = DrawSettings::unhinted(Size::new(size as f32), LocationRef::default());
            // Glyphs without an outline, such as spaces, stay blank.
            let _ = glyph.draw(settings, &mut pen);
        }
        pen.x += metrics.advance_width(id).unwrap_or(0.0);
    }
    pen.path.finish()
}

struct Pen {
    path: PathBuilder,
    x: f32,
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(self.x + x, -y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(self.x + x, -y);
    }

    fn quad_to(&mut self, cx: f32, cy: f32, x: f32, y: f32) {
        self.path.quad_to(self.x + cx, -cy, self.x + x, -y);
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        self.path.cubic_to(self.x + ax, -ay, self.x + bx, -by, self.x + x, -y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_add_up_and_long_names_are_cut() {
        assert!((width("abab", 12.0, false) - 2.0 * width("ab", 12.0, false)).abs() < 1e-3);
        assert!(width("m", 12.0, true) > width("m", 12.0, false));
        assert_eq!(fit("age", 12.0, false, 100.0), "age");
        let cut = fit(&"long name ".repeat(10_000), 12.0, false, 100.0);
        assert!(cut.ends_with('…') && width(&cut, 12.0, false) <= 100.0 && cut.chars().count() > 10);
        assert_eq!(fit("abc", 12.0, false, -1.0), "…");
    }

    #[test]
    fn letters_have_outlines_and_spaces_do_not() {
        assert!(outline("Agµ−σ²", 12.0, false).is_some_and(|path| path.bounds().top() < 0.0));
        assert!(outline("  ", 12.0, true).is_none());
    }
}
