//! Contour lines on a square grid, found cell by cell.

use super::Point;

/// The contour at height `level`, as short segments in fractions of the square; `heights` has `side` points per side,
/// in rows of y.
pub fn contour(heights: &[f64], side: usize, level: f64) -> Vec<[Point; 2]> {
    let scale = 1.0 / (side - 1) as f64;
    let mut pieces = Vec::new();
    for (row, column) in (0..side - 1).flat_map(|row| (0..side - 1).map(move |column| (row, column))) {
        // Around the cell, each edge from one corner to the next.
        let corners = [(0, 0), (1, 0), (1, 1), (0, 1)].map(|(dx, dy)| (column + dx, row + dy));
        let height = |(x, y): (usize, usize)| heights[y * side + x];
        let mut crossings = Vec::with_capacity(4);
        for i in 0..4 {
            let (a, b) = (corners[i], corners[(i + 1) % 4]);
            let (ha, hb) = (height(a), height(b));
            if (ha >= level) != (hb >= level) {
                let t = (level - ha) / (hb - ha);
                let mix = |a: usize, b: usize| (a as f64 + t * (b as f64 - a as f64)) * scale;
                crossings.push((mix(a.0, b.0), mix(a.1, b.1)));
            }
        }
        pieces.extend(crossings.chunks_exact(2).map(|pair| [pair[0], pair[1]]));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contour_of_a_slope_is_at_its_level() {
        let heights = [0.0, 1.0, 2.0].repeat(3);
        let pieces = contour(&heights, 3, 0.5);
        assert_eq!(pieces.len(), 2);
        assert!(pieces.iter().flatten().all(|(x, _)| (x - 0.25).abs() < 1e-15));
        assert!(contour(&heights, 3, 5.0).is_empty());
    }
}
