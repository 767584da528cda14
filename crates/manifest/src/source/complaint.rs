//! What is wrong with a fleet, where it stands, and what to do about it: as data, and as text for people.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Complaint {
    pub severity: Severity,
    /// Nothing: it is about the fleet as a whole.
    #[serde(flatten)]
    pub place: Option<SourcePlace>,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// A second place that has to do with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<Related>,
}

/// Where, with what stands there. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SourcePlace {
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// The line, or as much of it as a person wants to see.
    pub text: String,
    pub mark: Mark,
}

/// Which characters of `text` are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mark {
    /// From 0.
    pub from: usize,
    pub width: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Related {
    #[serde(flatten)]
    pub place: SourcePlace,
    pub message: String,
}

impl Complaint {
    pub const fn is_error(&self) -> bool {
        matches!(self.severity, Severity::Error)
    }

    /// By file and place; what is about the whole comes first.
    pub(super) fn order(&self, other: &Self) -> std::cmp::Ordering {
        (&self.place, self.severity, &self.message).cmp(&(&other.place, other.severity, &other.message))
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        match &self.place {
            Some(place) => {
                writeln!(f, "{}:{}:{}: {severity}: {}", place.file, place.line, place.column, self.message)?;
                place.show(f)?;
            }
            None => writeln!(f, "{severity}: {}", self.message)?,
        }
        if let Some(Related { place, message }) = &self.related {
            writeln!(f, "  {}:{}:{}: {message}", place.file, place.line, place.column)?;
            place.show(f)?;
        }
        match &self.hint {
            Some(hint) => writeln!(f, "  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl SourcePlace {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let (space, before, mark) =
            (" ".repeat(number.len()), " ".repeat(self.mark.from), "^".repeat(self.mark.width.max(1)));
        writeln!(f, "  {number} | {}", self.text)?;
        writeln!(f, "  {space} | {before}{mark}")
    }
}
