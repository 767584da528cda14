//! Facts laid out for people, in columns: those that matter first come first, and what does not fit is left out. A last column
//! without a title is a remark, which is never left out.

use crate::screen::{cut, room};

/// Between two columns.
const GAP: usize = 2;
/// Wider cells are cut before a column is left out.
const WIDE: usize = 28;

/// Columns as wide as they need to be. On a terminal, as many as fit; the rest with `--wide`.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    table_within(header, rows, room())
}

/// The same for lines of so many letters.
pub fn table_within(header: &[&str], rows: &[Vec<String>], room: Option<usize>) -> String {
    let whole = Layout::whole(header, rows);
    let fits = room.is_none_or(|room| whole.total() <= room);
    // A remark that does not fit stands below its row.
    let (header, remarks) = match header {
        [titles @ .., ""] if !fits => (titles, Some(titles.len())),
        all => (all, None),
    };
    let layout = if fits { whole } else { Layout::of(header, rows, room.unwrap_or(usize::MAX)) };
    let mut lines = vec![layout.line(&mut header.iter().copied())];
    for row in rows {
        lines.push(layout.line(&mut row.iter().map(String::as_str)));
        let remark = remarks.and_then(|column| row.get(column)).filter(|remark| !remark.is_empty());
        lines.extend(remark.map(|remark| format!("  {remark}")));
    }
    let left = layout.left_out(header, rows);
    if !left.is_empty() {
        lines.push(format!("(--wide shows also {})", left.join(", ")));
    }
    lines.join("\n")
}

/// How wide each column is; nothing for one that is left out.
struct Layout(Vec<Option<usize>>);

impl Layout {
    fn whole(header: &[&str], rows: &[Vec<String>]) -> Self {
        let width = |column: usize| {
            let title = header.get(column).map_or(0, |title| title.chars().count());
            cells(rows, column).map(|cell| cell.chars().count()).max().unwrap_or(0).max(title)
        };
        Self((0..header.len()).map(|column| Some(width(column))).collect())
    }

    fn total(&self) -> usize {
        let widths: Vec<usize> = self.0.iter().flatten().copied().collect();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// As many columns as there is room for, the first ones first. What says nothing in any row goes before them.
    fn of(header: &[&str], rows: &[Vec<String>], room: usize) -> Self {
        let whole: Vec<usize> = Self::whole(header, rows).0.into_iter().flatten().collect();
        let is_empty = |column: usize| is_empty(rows, column);
        let (mut left, mut full) = (room, false);
        let widths = whole.iter().enumerate().map(|(column, whole)| {
            let first = column == 0;
            let width = (*whole).min(WIDE);
            let needed = if first { width } else { width + GAP };
            full |= needed > left && !is_empty(column);
            if !first && (full || is_empty(column)) {
                return None;
            }
            left = left.saturating_sub(needed);
            Some(width)
        });
        let mut layout = Self(widths.collect());
        layout.widen(&whole, left);
        layout
    }

    /// What is left over goes to columns that were cut, the first ones first.
    fn widen(&mut self, whole: &[usize], mut left: usize) {
        for (width, whole) in self.0.iter_mut().zip(whole) {
            if let Some(width) = width {
                let more = left.min(whole.saturating_sub(*width));
                *width += more;
                left -= more;
            }
        }
    }

    fn line(&self, cells: &mut dyn Iterator<Item = &str>) -> String {
        let kept = cells.zip(&self.0).filter_map(|(cell, width)| Some((cell, (*width)?)));
        let padded: Vec<String> = kept
            .map(|(cell, width)| {
                let cell = cut(cell, width);
                let pad = " ".repeat(width - cell.chars().count());
                cell + &pad
            })
            .collect();
        padded.join("  ").trim_end().to_owned()
    }

    /// Titles of what is not shown, and would say something.
    fn left_out<'h>(&self, header: &[&'h str], rows: &[Vec<String>]) -> Vec<&'h str> {
        let columns = header.iter().zip(&self.0).enumerate();
        let left = columns.filter(|(at, (_, width))| width.is_none() && !is_empty(rows, *at));
        left.map(|(_, (title, _))| *title).collect()
    }
}

/// Does it say nothing of anybody?
fn is_empty(rows: &[Vec<String>], column: usize) -> bool {
    cells(rows, column).all(|cell| matches!(&**cell, "" | "-"))
}

fn cells(rows: &[Vec<String>], column: usize) -> impl Iterator<Item = &String> {
    rows.iter().filter_map(move |row| row.get(column))
}

pub fn or_dash<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(|| "-".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn columns_line_up() {
        let rows = rows(&[&["a", "bb"], &["ccc", "d"]]);
        for room in [None, Some(7), Some(80)] {
            assert_eq!(table_within(&["X", "Y"], &rows, room), "X    Y\na    bb\nccc  d");
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out_from_the_end_and_named() {
        let rows =
            rows(&[&["web-1", "member", "-", "2030-01-01", "fine"], &["db", "REFUSED", "-", "2030-01-02", "odd"]]);
        let header = ["NODE", "STATE", "ALARM", "SEEN", "NOTE"];
        let told = table_within(&header, &rows, Some(26));
        let wanted = "\
NODE   STATE    SEEN
web-1  member   2030-01-01
db     REFUSED  2030-01-02
(--wide shows also NOTE)";
        assert_eq!(told, wanted);
        assert!(told.lines().take(3).all(|line| line.chars().count() <= 26));
    }

    #[test]
    fn a_remark_that_does_not_fit_stands_below_its_row() {
        let rows = rows(&[&["web-1", "member", ""], &["web-2", "waiting", "let it stay: freehold node approve web-2"]]);
        let header = ["NODE", "STATE", ""];
        let beside = "\
NODE   STATE
web-1  member
web-2  waiting  let it stay: freehold node approve web-2";
        assert_eq!(table_within(&header, &rows, None), beside);
        let below = "\
NODE   STATE
web-1  member
web-2  waiting
  let it stay: freehold node approve web-2";
        assert_eq!(table_within(&header, &rows, Some(44)), below);
    }

    #[test]
    fn long_cells_are_cut_before_a_column_goes() {
        let rows = rows(&[&["web-1", &"f".repeat(64), "member"]]);
        let told = table_within(&["NODE", "DIGEST", "STATE"], &rows, Some(60));
        assert_eq!(told.lines().count(), 2, "{told}");
        assert!(told.contains("f…  member"), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= 60), "{told}");
    }

    #[test]
    fn the_first_column_stays_however_narrow_it_is() {
        let rows = rows(&[&[&"n".repeat(90), "x"]]);
        let told = table_within(&["NODE", "X"], &rows, Some(20));
        assert_eq!(told.lines().nth(1).map(|line| line.chars().count()), Some(WIDE));
    }
}
