//! The terminal that a person looks at: how wide it is, whether it has colors, and lines that are drawn again and again.

use std::io::{IsTerminal, Stderr, Write as _, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use ground::plain::plain;
use terminal_size::{Height, Width, terminal_size_of};

/// `--wide`: everything is shown, also what does not fit.
static WIDE: AtomicBool = AtomicBool::new(false);

/// What says that something is wrong, wherever it stands.
const SHOUTS: [&str; 8] = ["WRONG", "FORKED", "ROLLED BACK", "REFUSED", "NOT FRESH", "FROZEN", "ALARM", "DOWN"];
const RED: &str = "\u{1b}[1;31m";
const YELLOW: &str = "\u{1b}[33m";
const RESET: &str = "\u{1b}[0m";

pub fn show_everything(wide: bool) {
    WIDE.store(wide, Ordering::Relaxed);
}

/// How many letters fit on a line of standard output; nothing if nobody looks, or wants all of it.
pub(crate) fn room() -> Option<usize> {
    if WIDE.load(Ordering::Relaxed) || !stdout().is_terminal() {
        return None;
    }
    Some(terminal_size_of(stdout()).map_or(80, |(Width(columns), _)| usize::from(columns)))
}

/// Lines of these words that fit behind an indent; as wide as help is where nobody looks.
pub(crate) fn cut_into(words: &str, indent: usize) -> Vec<String> {
    let room = room().unwrap_or(100).min(100).saturating_sub(indent).max(20);
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Colors where something is wrong, if a person looks who wants colors.
pub(crate) fn painted(text: &str) -> String {
    let wanted = stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if wanted { paint(text) } else { text.to_owned() }
}

fn paint(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(paint_line).collect();
    lines.join("\n")
}

fn paint_line(line: &str) -> String {
    if let Some(rest) = line.strip_prefix("soon ") {
        return format!("{YELLOW}soon{RESET} {rest}");
    }
    // The titles of columns shout, too, and nothing is wrong with them.
    if !line.chars().any(char::is_lowercase) {
        return line.to_owned();
    }
    SHOUTS.iter().fold(line.to_owned(), |line, word| line.replace(word, &format!("{RED}{word}{RESET}")))
}

/// Of a terminal, in letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub lines: usize,
}

/// A few lines on standard error that are drawn again in the place where they stand.
#[derive(Debug)]
pub struct Live {
    out: Stderr,
    /// How many lines were drawn last.
    drawn: usize,
}

impl Live {
    /// Nothing where nobody looks.
    pub fn new() -> Option<Self> {
        stderr().is_terminal().then(|| Self { out: stderr(), drawn: 0 })
    }

    /// How many letters fit on a line, and how many lines on the screen.
    pub fn size(&self) -> Size {
        let found = terminal_size_of(&self.out);
        found.map_or(Size { columns: 80, lines: 24 }, |(Width(columns), Height(lines))| Size {
            columns: columns.into(),
            lines: lines.into(),
        })
    }

    /// In the place of what was drawn last. What does not fit is cut: a line that wraps would stay when the next is drawn.
    pub fn draw(&mut self, lines: &[String]) {
        let size = self.size();
        let frame = frame(lines, self.drawn, size);
        self.drawn = lines.len().min(size.lines.saturating_sub(1));
        let _ = self.out.write_all(frame.as_bytes()).and_then(|()| self.out.flush());
    }

    /// Takes away what was drawn.
    pub fn clear(&mut self) {
        self.draw(&[]);
    }
}

/// Up to where it began, clear, and write: never a line that wraps, and never more than the screen has.
fn frame(lines: &[String], drawn: usize, Size { columns, lines: height }: Size) -> String {
    let back = if drawn > 0 { format!("\u{1b}[{drawn}A\u{1b}[J") } else { String::new() };
    let first = lines.len().saturating_sub(height.saturating_sub(1));
    let shown = lines.iter().skip(first).map(|line| format!("{}\n", cut(&plain(line), columns.saturating_sub(1))));
    format!("{back}{}", shown.collect::<String>())
}

/// So many letters of it; what is cut is marked.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Size = Size { columns: 80, lines: 24 };

    #[test]
    fn what_is_drawn_again_never_wraps_and_never_leaves_the_screen() {
        let lines: Vec<String> = (0..40).map(|nth| format!("{nth} {}", "x".repeat(200))).collect();
        let drawn = frame(&lines, 7, SMALL);
        let drawn = drawn.strip_prefix("\u{1b}[7A\u{1b}[J").unwrap();
        assert_eq!(drawn.lines().count(), 23);
        assert!(drawn.lines().all(|line| line.chars().count() == 79 && line.ends_with('…')), "{drawn}");
        assert!(drawn.starts_with("17 ") && drawn.ends_with("…\n"), "the last lines are the ones to see");
        assert_eq!(frame(&["a\u{1b}[2Jb".to_owned()], 0, SMALL).matches('\u{1b}').count(), 0);
    }

    #[test]
    fn colors_stand_where_something_is_wrong_and_nowhere_else() {
        assert_eq!(paint("web-1  REFUSED: why"), format!("web-1  {RED}REFUSED{RESET}: why"));
        for same in ["NODE  STATE  REFUSED", "web-1  confirmed", "its SVID, over QUIC"] {
            assert_eq!(paint(same), same);
        }
        assert_eq!(
            paint("WRONG  files  a\nsoon   head  b"),
            format!("{RED}WRONG{RESET}  files  a\n{YELLOW}soon{RESET}   head  b")
        );
    }
}
