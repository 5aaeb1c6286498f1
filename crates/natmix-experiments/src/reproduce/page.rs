//! Pages of the experiments: text, tables, pictures.

use natmix_report::figure::{Scene, png, svg};
use natmix_report::html::escape;
use natmix_report::page::document;
use serde::Serialize;
use std::path::Path;

/// A table: heading, names of the columns, rows, text below.
pub struct PageTable {
    pub heading: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    pub below: String,
}

/// Everything that a page shows.
pub struct Page {
    pub title: &'static str,
    pub words: String,
    pub pictures: Vec<(&'static str, &'static str, Scene)>,
    pub tables: Vec<PageTable>,
}

impl Page {
    /// Writes `report.html`, the pictures, and `NAME.json` with the results.
    pub fn write(&self, dir: &Path, name: &str, figures: &impl Serialize) -> std::io::Result<()> {
        let folder = dir.join("figures");
        std::fs::create_dir_all(&folder)?;
        let mut cards = format!(
            "<header><p class=\"kind\">natmix reproduce {name}</p><h1>{}</h1></header>\n\
             <section class=\"card\"><h2>What this shows</h2><p class=\"sentence\">{}</p></section>\n",
            escape(self.title),
            escape(&self.words)
        );
        for (file, heading, scene) in &self.pictures {
            let whole = Scene::grid(std::slice::from_ref(scene), 1, scene.title.clone());
            std::fs::write(folder.join(file).with_extension("svg"), svg::file(&whole))?;
            std::fs::write(folder.join(file).with_extension("png"), png::encode(&whole)?)?;
            cards += &format!(
                "<section id=\"{file}\" class=\"card\"><h2>{}</h2><figure><div class=\"box scroll\">{}</div></figure></section>\n",
                escape(heading),
                svg::inline(scene)
            );
        }
        for table in &self.tables {
            cards += &table.html();
        }
        cards += &format!(
            "<footer>natmix {}. Results: <code>{name}.json</code>, pictures: <code>figures/</code>.</footer>",
            env!("CARGO_PKG_VERSION")
        );
        std::fs::write(dir.join(name).with_extension("json"), serde_json::to_string_pretty(figures)?)?;
        std::fs::write(dir.join("report.html"), document(self.title, &cards))
    }
}

impl PageTable {
    fn html(&self) -> String {
        let head: String = self.columns.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
        let row = |row: &Vec<String>| -> String {
            let first = row.first().map_or(String::new(), |name| format!("<th>{}</th>", escape(name)));
            let cells: String = row.iter().skip(1).map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            format!("<tr>{first}{cells}</tr>")
        };
        let rows: String = self.rows.iter().map(row).collect();
        format!(
            "<section class=\"card\"><h2>{}</h2><div class=\"box scroll\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>\
             </table></div><p class=\"aside\">{}</p></section>\n",
            escape(&self.heading),
            escape(&self.below)
        )
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let width = |j: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(j)).chain([&self.columns[j]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: &Vec<String>| -> String {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            cells.collect::<Vec<_>>().join("  ") + "\n"
        };
        format!("{}\n{}{}", self.heading, line(&self.columns), self.rows.iter().map(line).collect::<String>())
    }
}
