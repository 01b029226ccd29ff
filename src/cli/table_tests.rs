//! Tables at several widths: one line per row, no line wider than the terminal.

use std::fmt::Write;

use super::{Column, Table, column, column_from, text, toned};
use crate::cli::tone::Tone;

const COLUMNS: &[Column] = &[column("NAME"), column("STATE"), column_from(60, "MINOR"), column("TEXT")];

fn sample() -> Table {
    let mut table = Table::new(COLUMNS);
    let long =
        "Rework the sign-in form so that a wrong password is told apart from an unknown account, with tests";
    table.row([text("fix-login"), toned(Some(Tone::Good), "idle"), text("x"), text(long)]);
    table.row([
        text("a-name-with-thirty-two-characters"),
        toned(Some(Tone::Bad), "failed"),
        text(""),
        text("短い説明"),
    ]);
    table.row([
        text("evil\u{1b}[2J"),
        toned(None, "odd"),
        text("a\nb"),
        text("\u{1b}]0;title\u{7}\u{202e}done\r\nnow"),
    ]);
    table
}

fn plain(coloured: &str) -> String {
    anstream::adapter::strip_str(coloured).to_string()
}

#[test]
fn a_table_fits_its_width_and_cuts_long_cells() {
    let mut shown = String::new();
    for width in [30, 50, 60, 100, 200] {
        let table = plain(&sample().render(width));
        writeln!(shown, "--- {width}\n{table}").unwrap();
        assert_eq!(table.lines().count(), 4, "a row is a line");
        assert!(table.lines().all(|line| line.chars().count() <= usize::from(width)), "{table}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn a_cell_of_a_megabyte_is_cut_before_it_is_measured() {
    let mut table = Table::new(COLUMNS);
    let flood = "word ".repeat(200_000);
    table.row([text(&flood), text("x".repeat(1 << 20)), text(""), text("end")]);
    let began = std::time::Instant::now();
    assert_eq!(table.render(100).lines().count(), 2);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn the_only_escape_sequences_are_our_colours() {
    let rendered = sample().render(100);
    let sequences: Vec<&str> =
        rendered.split('\u{1b}').skip(1).map(|part| part.split_inclusive('m').next().unwrap_or("")).collect();
    assert!(!sequences.is_empty(), "the table has colours");
    for sequence in &sequences {
        let is_colour = sequence.starts_with('[')
            && sequence.ends_with('m')
            && sequence[1..sequence.len() - 1].chars().all(|c| c.is_ascii_digit() || c == ';');
        assert!(is_colour, "{sequence:?}");
    }
    assert!(!plain(&rendered).contains(['\u{7}', '\u{202e}', '\r']));
}
