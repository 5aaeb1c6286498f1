//! Paints a scene as PNG: at twice its size in pixels, on a light background, with the built-in font.

use tiny_skia::{
    Color, ColorU8, FillRule, FilterQuality, LineJoin, Paint, Path, PathBuilder, Pattern, Pixmap, Rect, SpreadMode,
    Stroke, StrokeDash, Transform,
};

use super::{Anchor, Ink, Mark, Point, Scene, TextLabel, text};

/// Pixels per unit of the scene: sharp on high-density screens and in print.
const ZOOM: f32 = 2.0;

/// The contents of the file.
pub fn encode(scene: &Scene) -> std::io::Result<Vec<u8>> {
    let side = |x: f64| (x as f32 * ZOOM).ceil() as u32;
    let fault = |what: String| std::io::Error::other(format!("picture {:?}: {what}", scene.title));
    let mut ground = Pixmap::new(side(scene.width), side(scene.height)).ok_or_else(|| fault("no size".into()))?;
    let [r, g, b] = Ink::SURFACE.tone().light;
    ground.fill(Color::from_rgba8(r, g, b, 255));
    for mark in &scene.marks {
        paint_mark(&mut ground, mark);
    }
    // The background is opaque, so an alpha channel would only make the file larger.
    let colours: Vec<u8> = ground.data().chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, ground.width(), ground.height());
    encoder.set_color(png::ColorType::Rgb);
    // Four times faster than the default: a fit that takes half a second should not wait for its pictures.
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&colours));
    written.map_err(|error| fault(error.to_string()))?;
    Ok(file)
}

/// A heat map alone, one pixel per cell.
pub fn encode_raster(columns: usize, colours: &[[u8; 4]]) -> std::io::Result<Vec<u8>> {
    let mut file = Vec::new();
    let rows = colours.len().checked_div(columns).unwrap_or(0);
    let mut encoder = png::Encoder::new(&mut file, columns as u32, rows as u32);
    encoder.set_color(png::ColorType::Rgba);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(colours.as_flattened()));
    written.map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(file)
}

fn paint_raster(ground: &mut Pixmap, (x, y): Point, (width, height): Point, columns: usize, colours: &[[u8; 4]]) {
    let rows = colours.len().checked_div(columns).unwrap_or(0);
    let (Some(mut cells), Some(rect)) =
        (Pixmap::new(columns as u32, rows as u32), Rect::from_xywh(x as f32, y as f32, width as f32, height as f32))
    else {
        return;
    };
    for (cell, [r, g, b, a]) in cells.pixels_mut().iter_mut().zip(colours) {
        *cell = ColorU8::from_rgba(*r, *g, *b, *a).premultiply();
    }
    let place = Transform::from_scale(rect.width() / columns as f32, rect.height() / rows as f32)
        .post_translate(rect.x(), rect.y());
    let shader = Pattern::new(cells.as_ref(), SpreadMode::Pad, FilterQuality::Bilinear, 1.0, place);
    let paint = Paint { shader, ..Paint::default() };
    ground.fill_rect(rect, &paint, Transform::from_scale(ZOOM, ZOOM), None);
}

fn paint_mark(ground: &mut Pixmap, mark: &Mark) {
    let zoom = Transform::from_scale(ZOOM, ZOOM);
    match mark {
        Mark::Lines { paths, ink, width, dashed } => {
            let dash = if *dashed { StrokeDash::new(vec![5.0, 4.0], 0.0) } else { None };
            let stroke = Stroke { width: *width as f32, line_join: LineJoin::Round, dash, ..Stroke::default() };
            if let Some(path) = polygon(paths, false) {
                ground.stroke_path(&path, &colour(*ink, 1.0), &stroke, zoom, None);
            }
        }
        Mark::Area { points, ink, opacity } => {
            if let Some(path) = polygon(std::slice::from_ref(points), true) {
                ground.fill_path(&path, &colour(*ink, *opacity), FillRule::Winding, zoom, None);
            }
        }
        Mark::Dots { centres, radius, ink, opacity } => {
            let paint = colour(*ink, *opacity);
            for &(x, y) in centres {
                // One at a time, so that overlapping dots grow darker.
                if let Some(dot) = PathBuilder::from_circle(x as f32, y as f32, *radius as f32) {
                    ground.fill_path(&dot, &paint, FillRule::Winding, zoom, None);
                }
            }
        }
        Mark::Raster { corner, width, height, columns, colours } => {
            paint_raster(ground, *corner, (*width, *height), *columns, colours);
        }
        Mark::Text(label) => paint_text(ground, label),
    }
}

fn paint_text(ground: &mut Pixmap, label: &TextLabel) {
    let Some(path) = text::outline(&label.text, label.size, label.bold) else { return };
    let back = match label.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => 0.5,
        Anchor::End => 1.0,
    };
    let back = -back * text::advance(&label.text, label.size, label.bold) as f32;
    let turn = if label.upright { -90.0 } else { 0.0 };
    let place = Transform::from_translate(back, 0.0)
        .post_concat(Transform::from_rotate(turn))
        .post_translate(label.at.0 as f32, label.at.1 as f32)
        .post_scale(ZOOM, ZOOM);
    ground.fill_path(&path, &colour(label.ink, 1.0), FillRule::Winding, place, None);
}

fn polygon(paths: &[Vec<Point>], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for points in paths.iter().filter(|points| points.len() > 1) {
        for (i, &(x, y)) in points.iter().enumerate() {
            if i == 0 { builder.move_to(x as f32, y as f32) } else { builder.line_to(x as f32, y as f32) }
        }
        if closed {
            builder.close();
        }
    }
    builder.finish()
}

fn colour(ink: Ink, opacity: f64) -> Paint<'static> {
    let [r, g, b] = ink.tone().light;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8);
    paint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_twice_its_size_in_pixels_and_the_right_colours() {
        let mut scene = Scene::new(20.0, 10.0, "dot");
        scene.rect((0.0, 0.0), (10.0, 10.0), Ink::series(0), 1.0);
        scene.line(vec![(3.0, 3.0), (3.0, 3.0)], Ink::TEXT, 1.0);
        scene.text(TextLabel::new((12.0, 8.0), "x", 8.0, Ink::TEXT).anchored(Anchor::Middle).upright());
        let file = encode(&scene).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let size = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((size.width, size.height), (40, 20));
        let pixel = |x: usize, y: usize| &pixels[3 * (40 * y + x)..][..3];
        assert_eq!(pixel(10, 15), Ink::series(0).tone().light);
        assert_eq!(pixel(39, 0), [255; 3]);
    }

    #[test]
    fn a_picture_without_size_is_an_error_not_a_panic() {
        assert!(encode(&Scene::new(0.0, f64::NAN, "none")).unwrap_err().to_string().contains("none"));
    }
}
