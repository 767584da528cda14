//! YAML and JSON as a tree in which every key and value knows its spot; bounded, and without anything that refers.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

use super::place::{Notes, Spot, error};

/// A fleet of ten thousand machines takes a few megabytes.
pub const MAX_FILE_BYTES: usize = 8 << 20;
pub const MAX_BYTES: usize = 32 << 20;
const MAX_VALUES: usize = 2_000_000;
/// The fleet's own shapes need half of it.
const MAX_DEPTH: usize = 16;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) at: Spot,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    /// Nothing was written, or `null`.
    Nothing,
    /// A plain one was written without quotes.
    Text {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Spot,
    pub(crate) value: Node,
}

impl Entry {
    /// Where to point when the value is meant: nothing has no place of its own.
    pub(crate) const fn spot(&self) -> Spot {
        match self.value.value {
            Value::Text { .. } => self.value.at,
            _ => self.at,
        }
    }
}

impl Node {
    /// What a map says under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// A list's items; one text is a list of one.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Text { .. } => std::slice::from_ref(self),
            _ => &[],
        }
    }
}

/// Values that all files together may still have.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(MAX_VALUES)
    }
}

/// Reads one file. Nothing: it could not be read, and why has been said.
pub(crate) fn read(notes: &mut Notes<'_>, file: usize, text: &str, budget: &mut Budget) -> Option<Node> {
    let mut tree = Tree { notes, file, budget, open: Vec::new(), root: None, documents: 0 };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        match next {
            Ok((event, span)) => tree.take(event, &span)?,
            Err(why) => {
                tree.no_yaml(&why);
                return None;
            }
        }
    }
    let whole = Spot { file, line: 1, column: 0, width: 1 };
    Some(tree.root.unwrap_or(Node { at: whole, value: Value::Nothing }))
}

struct Tree<'t, 'a> {
    notes: &'t mut Notes<'a>,
    file: usize,
    budget: &'t mut Budget,
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

/// A list or map whose end has not come yet.
enum Open {
    List(Spot, Vec<Node>),
    Map { at: Spot, entries: Vec<Entry>, key: Option<(String, Spot)>, seen: BTreeMap<String, Spot> },
}

impl Tree<'_, '_> {
    /// Nothing: it is of no use to go on.
    fn take(&mut self, event: Event<'_>, span: &Span) -> Option<()> {
        let at = self.spot(span);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return self.refuse(at, "a second document begins here", "put it into a file of its own");
                }
                Some(())
            }
            Event::Alias(_) => self.no_references(at),
            Event::Scalar(_, _, anchor, _) | Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _)
                if anchor > 0 =>
            {
                self.no_references(at)
            }
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                self.refuse(at, "tags (`!name`) are not part of a fleet", "leave it out: types follow from the key")
            }
            Event::Scalar(text, style, ..) => {
                let plain = style == ScalarStyle::Plain;
                let nothing = plain && matches!(&*text, "" | "~" | "null");
                let value = if nothing { Value::Nothing } else { Value::Text { text: text.into_owned(), plain } };
                self.put(Node { at, value })
            }
            Event::SequenceStart(..) => self.begin(Open::List(at, Vec::new()), at),
            Event::MappingStart(..) => {
                self.begin(Open::Map { at, entries: Vec::new(), key: None, seen: BTreeMap::new() }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop()? {
                Open::List(at, items) => self.put(Node { at, value: Value::List(items) }),
                Open::Map { at, entries, .. } => self.put(Node { at, value: Value::Map(entries) }),
            },
        }
    }

    fn begin(&mut self, open: Open, at: Spot) -> Option<()> {
        if self.open.len() >= MAX_DEPTH {
            return self.refuse(at, "nested too deeply", "a fleet needs no more than a few levels");
        }
        self.open.push(open);
        Some(())
    }

    /// A value is whole: it becomes an item, a key, what a key says, or the document.
    fn put(&mut self, node: Node) -> Option<()> {
        let Some(left) = self.budget.0.checked_sub(1) else {
            return self.refuse(node.at, "the fleet has too many values", "two million are read at most");
        };
        self.budget.0 = left;
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map { entries, key, seen, .. }) => match key.take() {
                None => {
                    let at = node.at;
                    let Value::Text { text, .. } = node.value else {
                        return self.refuse(at, "a key must be a text", "write it as `key: value`");
                    };
                    if text == "<<" {
                        return self.refuse(at, "merge keys (`<<`) are not part of a fleet", "write the values out");
                    }
                    *key = Some((text, at));
                }
                Some((text, at)) => match seen.insert(text.clone(), at) {
                    None => entries.push(Entry { key: text, at, value: node }),
                    Some(first) => {
                        seen.insert(text.clone(), first);
                        let message = format!("the key `{}` is there twice", short(&text));
                        let draft = error(at, message).also(first, "it is first here");
                        self.notes.push(draft.hint("keep one of them, or rename one"));
                    }
                },
            },
        }
        Some(())
    }

    fn no_references(&mut self, at: Spot) -> Option<()> {
        let hint = "write the value out; what machines share belongs into `org` or a class";
        self.refuse(at, "anchors (`&name`) and aliases (`*name`) are not part of a fleet", hint)
    }

    fn refuse(&mut self, at: Spot, message: &str, hint: &str) -> Option<()> {
        self.notes.push(error(at, message).hint(hint));
        None
    }

    fn no_yaml(&mut self, why: &ScanError) {
        let at = self.spot(&Span::empty(*why.marker()));
        if why.info().contains("anchor") {
            self.no_references(at);
            return;
        }
        // What follows a tab is often blamed instead of it.
        for line in [at.line, at.line.saturating_sub(1)] {
            let bytes = self.notes.line(self.file, line);
            let indent = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
            if let Some(column) = indent.clone().position(|byte| *byte == b'\t') {
                self.notes.push(tab(Spot { line, column, width: 1, ..at }));
                return;
            }
        }
        self.notes.push(error(at, format!("this is not YAML: {}", why.info())).hint(
            "look at the indentation, and put quotes around texts with `: `, ` #`, or a leading `*`, `&`, `!`, `{`, `[`",
        ));
    }

    fn spot(&self, span: &Span) -> Spot {
        place_of(self.file, &span.start, &span.end)
    }
}

fn place_of(file: usize, start: &Marker, end: &Marker) -> Spot {
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { usize::MAX };
    Spot { file, line: start.line().max(1), column: start.col(), width: width.max(1) }
}

pub(crate) fn tab(at: Spot) -> super::place::Draft {
    error(at, "a tab in the indentation").hint("indent with spaces: YAML allows no tabs there")
}

/// As much of a text as fits into a message.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
