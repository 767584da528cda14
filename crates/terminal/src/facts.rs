//! Facts as JSON: in the order in which they are told, and names in them without the backticks that mark them for people.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

/// What somebody typed, or what a shell runs: said letter by letter.
const VERBATIM: [&str; 5] = ["code", "line", "text", "label", "reason"];

pub(crate) fn lines<T: Serialize>(value: &T) -> String {
    written(value, PrettyFormatter::new())
}

/// The same on one line.
pub fn line<T: Serialize>(value: &T) -> String {
    written(value, CompactFormatter)
}

fn written<T: Serialize>(value: &T, form: impl Formatter) -> String {
    let mut out = Vec::new();
    let bare = Bare { form, key: String::new(), in_key: false };
    if value.serialize(&mut Serializer::with_formatter(&mut out, bare)).is_err() {
        return String::new();
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Writes as another does, without backticks in what is prose.
struct Bare<F> {
    form: F,
    /// The one that was written last.
    key: String,
    in_key: bool,
}

impl<F: Formatter> Formatter for Bare<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, to: &mut W, fragment: &str) -> io::Result<()> {
        if self.in_key {
            self.key.push_str(fragment);
        }
        if self.in_key || VERBATIM.contains(&self.key.as_str()) {
            return self.form.write_string_fragment(to, fragment);
        }
        self.form.write_string_fragment(to, &fragment.replace('`', ""))
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.begin_array(to)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.end_array(to)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.form.begin_array_value(to, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.end_array_value(to)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.begin_object(to)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.end_object(to)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.key.clear();
        self.in_key = true;
        self.form.begin_object_key(to, first)
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.in_key = false;
        self.form.end_object_key(to)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.begin_object_value(to)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.form.end_object_value(to)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_in_facts_have_no_backticks_and_what_somebody_typed_keeps_them() {
        let told = json!({ "why": ["`web-1` is DOWN\n"], "at": { "label": "`rack` 3", "z": "`a`" }, "w": true });
        let bare = json!({ "why": ["web-1 is DOWN\n"], "at": { "label": "`rack` 3", "z": "a" }, "w": true });
        for text in [lines(&told), line(&told)] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), bare, "{text}");
        }
        assert_eq!(lines(&bare), serde_json::to_string_pretty(&bare).unwrap());
        assert_eq!(line(&bare), serde_json::to_string(&bare).unwrap());
    }
}
