//! The files of a fleet as they came, and how a spot in them becomes a place that people can find.

use super::complaint::{Complaint, Mark, Place, Related, Severity};

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
    unshown: usize,
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
        Self { files, lines: files.iter().map(starts).collect(), complaints: Vec::new(), errors: 0, unshown: 0 }
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

    fn place(&self, at: Spot) -> Place {
        let line = String::from_utf8_lossy(self.line(at.file, at.line));
        let length = line.chars().count();
        let column = at.column.min(length);
        let skipped = if length <= SHOWN { 0 } else { column.saturating_sub(BEFORE) };
        let cut = length > skipped + SHOWN;
        let mut text = String::new();
        if skipped > 0 {
            text.push('…');
        }
        text.extend(line.chars().skip(skipped).take(SHOWN).map(harmless));
        if cut {
            text.push('…');
        }
        let from = column - skipped + usize::from(skipped > 0);
        let shown = length.min(skipped + SHOWN);
        let width = at.width.min(shown.saturating_sub(column)).max(1);
        let file = self.files.get(at.file).map(|file| file.path.chars().map(harmless).collect()).unwrap_or_default();
        Place { file, line: at.line, column: column + 1, text, mark: Mark { from, width } }
    }
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
pub(crate) fn meant<'n>(given: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
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
