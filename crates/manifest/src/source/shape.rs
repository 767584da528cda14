//! Holds a tree against the table of keys: types, unknown and missing keys, and the form of every text.

use super::form::Form;
use super::keys::{Section, Shape};
use super::place::{Notes, Spot, error, meant};
use super::tree::{Entry, Node, Value, short};

/// Something to be held against its shape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'s> {
    pub(crate) node: &'s Node,
    /// Where to point when it is wrong as a whole.
    pub(crate) at: Spot,
    /// What a person would call it.
    pub(crate) path: &'s str,
    /// What it is for: the hint if there is no better one.
    pub(crate) about: &'s str,
}

/// Complains about everything in the subject that does not have this shape.
pub(crate) fn check(notes: &mut Notes<'_>, shape: &Shape, subject: Subject<'_>) {
    let Subject { node, at, path, about } = subject;
    match (shape, &node.value) {
        (Shape::Map(..) | Shape::MapOrNames(..), Value::Nothing) => {}
        (Shape::Section(section), Value::Nothing) => missing(notes, section, &[], &[], subject),
        (_, Value::Nothing) => {
            let draft = error(at, format!("`{path}` says nothing"));
            notes.push(draft.hint(format!("give {}, or leave it out", wanted(shape))));
        }
        (Shape::Text(form) | Shape::Texts(form) | Shape::TextOr(form, _), Value::Text { text, .. }) => {
            form_of(notes, *form, text, node.at, about);
        }
        (Shape::Texts(form) | Shape::MapOrNames(form, _), Value::List(items)) => texts(notes, *form, items, subject),
        (Shape::Words(form), Value::List(items)) if !items.is_empty() && items.len() <= 64 => {
            texts(notes, *form, items, subject);
        }
        (Shape::Flag, Value::Text { text, plain: true }) if matches!(text.as_str(), "true" | "false") => {}
        (Shape::Whole { least, most }, Value::Text { text, plain: true })
            if text.parse().is_ok_and(|number: u64| (*least..=*most).contains(&number)) => {}
        (Shape::Choice(choices), Value::Text { text, .. }) => {
            if !choices.contains(&text.as_str()) {
                let hint = meant(text, choices.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                let draft = error(node.at, format!("`{path}` cannot be `{}`", short(text)));
                notes.push(draft.hint(format!("it is one of: {}", choices.join(", "))).maybe_hint(hint));
            }
        }
        (Shape::Map(form, shape) | Shape::MapOrNames(form, shape), Value::Map(entries)) => {
            for entry in entries {
                form_of(notes, *form, &entry.key, entry.at, about);
                let path = format!("{path}.{}", short(&entry.key));
                check(notes, shape, Subject { node: &entry.value, at: spot(entry, shape), path: &path, about });
            }
        }
        (Shape::Section(section) | Shape::TextOr(_, section), Value::Map(entries)) => {
            keys(notes, section, entries, subject);
        }
        _ => {
            let what = if path.is_empty() { "a file of a fleet".to_owned() } else { format!("`{path}`") };
            notes.push(error(at, format!("{what} must be {}, not {}", wanted(shape), found(&node.value))).hint(about));
        }
    }
}

fn keys(notes: &mut Notes<'_>, section: &Section, entries: &[Entry], subject: Subject<'_>) {
    let mut meant = Vec::new();
    for entry in entries {
        let prefix = if subject.path.is_empty() { String::new() } else { format!("{}.", subject.path) };
        let path = format!("{prefix}{}", short(&entry.key));
        match section.keys().find(|key| key.name == entry.key) {
            Some(key) => {
                let at = spot(entry, &key.shape);
                check(notes, &key.shape, Subject { node: &entry.value, at, path: &path, about: key.about });
            }
            None => meant.extend(unknown(notes, section, entry, subject.path)),
        }
    }
    missing(notes, section, entries, &meant, subject);
}

/// Where to point when this value is wrong as a whole.
const fn spot(entry: &Entry, shape: &Shape) -> Spot {
    match shape {
        Shape::Map(..) | Shape::MapOrNames(..) | Shape::Section(_) => entry.at,
        _ => entry.spot(),
    }
}

/// Says which key was meant, if that can be guessed.
fn unknown(notes: &mut Notes<'_>, section: &Section, entry: &Entry, path: &str) -> Option<&'static str> {
    notes.not_heard();
    let whose = if path.is_empty() { "a fleet".to_owned() } else { format!("`{path}`") };
    let draft = error(entry.at, format!("{whose} has no key `{}`", short(&entry.key)));
    let elsewhere = section.elsewhere.iter().find(|(key, _)| *key == entry.key).map(|(_, why)| (*why).to_owned());
    let known = section.keys().map(|key| key.name);
    let near = if notes.is_crowded() { None } else { meant(&entry.key, known) };
    let asked = near.map(|near| format!("did you mean `{near}`?"));
    let all: Vec<_> = section.keys().map(|key| key.name).collect();
    notes.push(draft.hint(format!("{} has: {}", section.what, all.join(", "))).maybe_hint(elsewhere.or(asked)));
    near
}

/// Keys that are not there, and not among those that were meant by others.
fn missing(notes: &mut Notes<'_>, section: &Section, entries: &[Entry], meant: &[&str], subject: Subject<'_>) {
    let Subject { at, path, .. } = subject;
    let there = |name: &str| meant.contains(&name) || entries.iter().any(|entry| entry.key == name);
    for key in section.keys().filter(|key| key.needed && !there(key.name)) {
        notes.push(error(at, format!("`{path}` has no `{}`", key.name)).hint(key.about));
    }
    let chosen: Vec<_> = section.one_of.iter().filter(|name| there(name)).collect();
    match chosen.as_slice() {
        [] if !section.one_of.is_empty() => {
            let draft = error(at, format!("`{path}` says nothing that could be done"));
            notes.push(draft.hint(format!("it needs one of: {}", section.one_of.join(", "))));
        }
        [first, second, ..] => {
            let draft = error(at, format!("`{path}` has both `{first}` and `{second}`"));
            notes.push(draft.hint("keep one of them"));
        }
        _ => {}
    }
}

fn texts(notes: &mut Notes<'_>, form: Form, items: &[Node], subject: Subject<'_>) {
    for item in items {
        if let Value::Text { text, .. } = &item.value {
            form_of(notes, form, text, item.at, subject.about);
        } else {
            let message = format!("`{}` must be a list of texts; here is {}", subject.path, found(&item.value));
            notes.push(error(item.at, message).hint(subject.about));
        }
    }
}

fn form_of(notes: &mut Notes<'_>, form: Form, text: &str, at: Spot, about: &str) {
    if let Err(wrong) = form.check(text) {
        notes.push(error(at, wrong.message).hint(about).maybe_hint(wrong.hint));
    }
}

fn wanted(shape: &Shape) -> String {
    match shape {
        Shape::Text(form) => form.words().to_owned(),
        Shape::Texts(form) => format!("{}, or a list of such", form.words()),
        Shape::Words(_) => "a list of 1 to 64 texts".to_owned(),
        Shape::Flag => "`true` or `false`, without quotes".to_owned(),
        Shape::Whole { least, most } => format!("a number from {least} to {most}, without quotes"),
        Shape::Choice(choices) => format!("one of: {}", choices.join(", ")),
        Shape::Map(form, _) => format!("a map whose keys are each {}", form.words()),
        Shape::MapOrNames(..) => "a map by name, or a list of names".to_owned(),
        Shape::Section(section) => {
            let names: Vec<_> = section.keys().map(|key| key.name).collect();
            format!("a map with any of: {}", names.join(", "))
        }
        Shape::TextOr(form, section) => format!("{}, or {}", form.words(), wanted(&Shape::Section(section))),
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Nothing => "nothing".to_owned(),
        Value::Text { text, plain: true } => format!("`{}`", short(text)),
        Value::Text { text, .. } => format!("the text \"{}\"", short(text)),
        Value::List(items) if items.is_empty() => "an empty list".to_owned(),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}
