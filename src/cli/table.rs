//! Tables that fit the terminal: one line per row, long cells cut, minor columns omitted on narrow terminals.

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, presets};

use super::tone::Tone;
use crate::domain::text::{cut, one_line};

/// No terminal line is longer; measuring longer cells word by word could take minutes.
const LONGEST_CELL: usize = 500;

/// A column, and the least width of a table that shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    from_width: u16,
}

/// Always shown.
pub(crate) const fn column(title: &'static str) -> Column {
    Column { title, from_width: 0 }
}

/// Shown only in a table at least this wide.
pub(crate) const fn column_from(from_width: u16, title: &'static str) -> Column {
    Column { title, from_width }
}

#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, including colours: write them through a stream that knows whether colours are wanted.
    pub(crate) fn render(&self, width: u16) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width)
            .enforce_styling()
            .set_truncation_indicator("…")
            .set_header(self.columns.iter().map(|column| Cell::new(column.title)));
        for cells in &self.rows {
            let mut row = Row::from(cells.clone());
            row.max_height(1);
            table.add_row(row);
        }
        for (column, wanted) in table.column_iter_mut().zip(self.columns) {
            column.set_padding((0, 2));
            if wanted.from_width > width {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        // Padding without colour can be trimmed at the end of a line.
        table.style_text_only();
        table.trim_fmt()
    }
}

/// Untrusted text, made one printable line of bounded length.
pub(crate) fn text(text: impl AsRef<str>) -> Cell {
    Cell::new(cut(&one_line(text.as_ref()), LONGEST_CELL))
}

pub(crate) fn toned(tone: Option<Tone>, word: impl AsRef<str>) -> Cell {
    let cell = text(word);
    match tone {
        Some(tone) => tone.colour(cell),
        None => cell,
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
