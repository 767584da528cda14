//! The files of a fleet as they came, and how a spot in them becomes a place that people can find.

use super::complaint::{Complaint, Mark, Related, Severity, SourcePlace};

/// So much of a long line is shown, and so much of it before the mark.
const SHOWN: usize = 120;
const BEFORE: usize = 60;
/// Nobody reads more at once.
const MAX_COMPLAINTS: usize = 1000;

/// A spot in one of the files: line from 1, column from 0, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) width: usize,
}

/// One file of a fleet, named relative to the fleet's folder, with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// Collects complaints, and knows the lines that they are about.
#[derive(Debug)]
pub(crate) struct Notes<'a> {
    files: &'a [SourceFile],
    /// Where each line of each file begins.
    lines: Vec<Vec<usize>>,
    complaints: Vec<Complaint>,
    errors: usize,
    /// Something was said that nobody heard: its key is unknown.
    unheard: bool,
    unshown: usize,
    walked: Walked,
}

/// A complaint in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    severity: Severity,
    at: Option<Spot>,
    message: String,
    hint: Option<String>,
    related: Option<(Spot, String)>,
}

pub(crate) fn error(at: Spot, message: impl Into<String>) -> Draft {
    Draft { severity: Severity::Error, at: Some(at), message: message.into(), hint: None, related: None }
}

pub(crate) fn warning(at: Spot, message: impl Into<String>) -> Draft {
    Draft { severity: Severity::Warning, ..error(at, message) }
}

/// About the fleet as a whole, or about a place if there is one.
pub(crate) fn error_about(at: Option<Spot>, message: impl Into<String>) -> Draft {
    Draft { severity: Severity::Error, at, message: message.into(), hint: None, related: None }
}

impl Draft {
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn also(mut self, at: Spot, message: impl Into<String>) -> Self {
        self.related = Some((at, message.into()));
        self
    }
}

impl<'a> Notes<'a> {
    pub(crate) fn new(files: &'a [SourceFile]) -> Self {
        let starts = |file: &SourceFile| {
            let after = file.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(after).collect()
        };
        Self {
            files,
            lines: files.iter().map(starts).collect(),
            complaints: Vec::new(),
            errors: 0,
            unheard: false,
            unshown: 0,
            walked: Walked::default(),
        }
    }

    pub(crate) fn push(&mut self, draft: Draft) {
        self.errors += usize::from(draft.severity == Severity::Error);
        if self.complaints.len() >= MAX_COMPLAINTS {
            self.unshown += 1;
            return;
        }
        let related = draft
            .related
            .map(|(at, message)| Related { place: self.place(at), message: message.chars().map(harmless).collect() });
        let place = draft.at.map(|at| self.place(at));
        // Names and texts are quoted in them.
        let one_line = |text: String| text.chars().map(harmless).collect();
        let (severity, message, hint) = (draft.severity, one_line(draft.message), draft.hint.map(one_line));
        self.complaints.push(Complaint { severity, place, message, hint, related });
    }

    pub(crate) const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub(crate) const fn not_heard(&mut self) {
        self.unheard = true;
    }

    /// What seems to be missing may stand under a key that is misspelled.
    pub(crate) const fn has_heard_all(&self) -> bool {
        !self.unheard
    }

    /// There is so much to say that guessing what was meant would take too long.
    pub(crate) const fn is_crowded(&self) -> bool {
        self.complaints.len() >= 100
    }

    pub(crate) fn finish(mut self) -> Vec<Complaint> {
        self.complaints.sort_by(Complaint::order);
        self.complaints.dedup();
        if self.unshown > 0 {
            let severity = if self.errors > 0 { Severity::Error } else { Severity::Warning };
            let message = format!("{} more are not shown", self.unshown);
            self.complaints.push(Complaint { severity, place: None, message, hint: None, related: None });
        }
        self.complaints
    }

    /// The bytes of a line, without its end.
    pub(crate) fn line(&self, file: usize, line: usize) -> &'a [u8] {
        let Some((source, starts)) = self.files.get(file).zip(self.lines.get(file)) else {
            return &[];
        };
        let from = line.checked_sub(1).and_then(|index| starts.get(index)).copied().unwrap_or(source.bytes.len());
        let to = starts.get(line).copied().unwrap_or(source.bytes.len());
        let bytes = source.bytes.get(from..to).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        bytes.strip_suffix(b"\r").unwrap_or(bytes)
    }

    /// The spot of a byte.
    pub(crate) fn spot_of_byte(&self, file: usize, byte: usize) -> Spot {
        let starts = self.lines.get(file).map(Vec::as_slice).unwrap_or_default();
        let line = starts.partition_point(|start| *start <= byte).max(1);
        let start = line.checked_sub(1).and_then(|index| starts.get(index)).copied().unwrap_or_default();
        let bytes = self.files.get(file).map(|file| file.bytes.as_slice()).unwrap_or_default();
        let before = bytes.get(start..byte).unwrap_or_default();
        Spot { file, line, column: String::from_utf8_lossy(before).chars().count(), width: 1 }
    }

    fn place(&mut self, at: Spot) -> SourcePlace {
        let line = self.line(at.file, at.line);
        let (column, start) = self.walk(at, line);
        let begin = if line.len() <= SHOWN { 0 } else { back(line, start, BEFORE) };
        let end = forth(line, begin, SHOWN).1;
        let part = |from: usize, to: usize| String::from_utf8_lossy(line.get(from..to).unwrap_or_default());
        let mut text = String::new();
        if begin > 0 {
            text.push('…');
        }
        text.extend(part(begin, end).chars().map(harmless));
        if end < line.len() {
            text.push('…');
        }
        let from = part(begin, start).chars().count() + usize::from(begin > 0);
        let width = at.width.min(part(start, end).chars().count()).max(1);
        let file = self.files.get(at.file).map(|file| file.path.chars().map(harmless).collect()).unwrap_or_default();
        SourcePlace { file, line: at.line, column: column + 1, text, mark: Mark { from, width } }
    }

    /// The column, or the last one if the line ends before it, and the byte that it begins with. It goes on from where
    /// it was before: a fleet may be one line of many megabytes, with something to say about each part of it.
    fn walk(&mut self, at: Spot, line: &[u8]) -> (usize, usize) {
        let Walked { file, line: number, column, byte } = self.walked;
        let known = file == at.file && number == at.line && column <= at.column;
        let (column, byte) = if known { (column, byte) } else { (0, 0) };
        let (steps, byte) = forth(line, byte, at.column - column);
        self.walked = Walked { file: at.file, line: at.line, column: column + steps, byte };
        (column + steps, byte)
    }
}

/// How far a line was walked through.
#[derive(Debug, Default)]
struct Walked {
    file: usize,
    line: usize,
    column: usize,
    byte: usize,
}

/// Whether a character begins with this byte.
const fn begins(byte: u8) -> bool {
    byte & 0b1100_0000 != 0b1000_0000
}

/// So many characters on from a byte, or to the end: how many there were, and the byte there.
fn forth(line: &[u8], from: usize, many: usize) -> (usize, usize) {
    let rest = line.get(from..).unwrap_or_default();
    let mut starts = rest.iter().enumerate().filter(|(_, byte)| begins(**byte)).map(|(at, _)| from + at);
    let mut steps = 0;
    while steps < many {
        if starts.next().is_none() {
            return (steps, line.len());
        }
        steps += 1;
    }
    (steps, starts.next().unwrap_or(line.len()))
}

/// So many characters back from a byte, or to the beginning.
fn back(line: &[u8], from: usize, many: usize) -> usize {
    let before = line.get(..from).unwrap_or_default();
    let mut starts = before.iter().enumerate().rev().filter(|(_, byte)| begins(**byte)).map(|(at, _)| at);
    many.checked_sub(1).map_or(Some(from), |last| starts.nth(last)).unwrap_or(0)
}

/// One character for one, so that marks stay where they belong; nothing moves the cursor or turns the writing.
fn harmless(c: char) -> char {
    match c {
        '\t' => ' ',
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

/// The one that was probably meant.
pub fn meant<'n>(given: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let given: String = given.chars().take(100).collect::<String>().to_ascii_lowercase();
    let longest = (given.chars().count() / 3).max(1);
    let distance = |name: &str| match name.len().abs_diff(given.len()) {
        apart if apart <= longest => strsim::damerau_levenshtein(&given, name),
        _ => usize::MAX,
    };
    let near = known.map(|name| (distance(name), name));
    // `adress` is far from `addr` by its letters, but begins alike.
    let alike = |name: &str| name.len() > 3 && strsim::jaro_winkler(&given, name) > 0.79;
    near.filter(|(distance, name)| *distance <= longest || alike(name)).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str, columns: &[usize]) -> Vec<SourcePlace> {
        let files = [SourceFile { path: "a.yaml".to_owned(), bytes: text.as_bytes().to_vec() }];
        let mut notes = Notes::new(&files);
        columns.iter().map(|column| notes.place(Spot { file: 0, line: 1, column: *column, width: 2 })).collect()
    }

    #[test]
    fn a_mark_is_under_what_is_meant_in_any_order_and_alphabet() {
        let text: String = ('a'..='z').chain('α'..='ω').cycle().take(1000).collect();
        let columns = [0, 59, 60, 61, 500, 499, 3, 997, 998, 999];
        for (place, column) in places(&text, &columns).into_iter().zip(columns) {
            assert_eq!(place.column, column + 1);
            let marked: String = place.text.chars().skip(place.mark.from).take(place.mark.width).collect();
            let wanted: String = text.chars().skip(column).take(2).collect();
            assert_eq!(marked, wanted, "{column}");
            assert!(place.text.chars().count() <= SHOWN + 2);
        }
    }

    #[test]
    fn a_mark_behind_the_end_stays_at_the_end() {
        let place = &places("abc", &[3, 7, 2])[1];
        assert_eq!((place.column, place.mark.from, place.mark.width, place.text.as_str()), (4, 3, 1, "abc"));
        let place = &places("", &[0])[0];
        assert_eq!((place.column, place.mark.from, place.mark.width, place.text.as_str()), (1, 0, 1, ""));
    }
}
