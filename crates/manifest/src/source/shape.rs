//! Holds a tree against the table of keys: types, unknown and missing keys, and the form of every text.

use super::form::Form;
use super::keys::{Section, Shape};
use super::place::{Notes, Spot, error, meant};
use super::tree::{Entry, Node, Value, short};

/// Complains about everything in `node` that does not have this shape. `path` is what a person would call it.
pub(crate) fn check(notes: &mut Notes<'_>, shape: &Shape, node: &Node, at: Spot, path: &str) {
    match (shape, &node.value) {
        (Shape::Map(..) | Shape::MapOrNames(..) | Shape::Section(_), Value::Nothing) => {
            if let Shape::Section(section) = shape {
                missing(notes, section, &[], at, path);
            }
        }
        (_, Value::Nothing) => {
            notes.push(
                error(at, format!("`{path}` says nothing")).hint(format!("give {}, or leave it out", wanted(shape))),
            );
        }
        (Shape::Text(form) | Shape::Texts(form), Value::Text { text, .. }) => form_of(notes, *form, text, node.at),
        (Shape::Texts(form) | Shape::MapOrNames(form, _), Value::List(items)) => {
            items.iter().for_each(|item| text(notes, *form, item, path));
        }
        (Shape::Words(form), Value::List(items)) if !items.is_empty() && items.len() <= 64 => {
            items.iter().for_each(|item| text(notes, *form, item, path));
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
                form_of(notes, *form, &entry.key, entry.at);
                check(notes, shape, &entry.value, spot(entry, shape), &format!("{path}.{}", short(&entry.key)));
            }
        }
        (Shape::Section(section), Value::Map(entries)) => keys(notes, section, entries, at, path),
        _ => notes.push(error(at, format!("`{path}` must be {}, not {}", wanted(shape), found(&node.value)))),
    }
}

fn keys(notes: &mut Notes<'_>, section: &Section, entries: &[Entry], at: Spot, path: &str) {
    for entry in entries {
        let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", short(&entry.key)) };
        match section.keys().find(|key| key.name == entry.key) {
            Some(key) => check(notes, &key.shape, &entry.value, spot(entry, &key.shape), &below),
            None => unknown(notes, section, entry, path),
        }
    }
    missing(notes, section, entries, at, path);
}

/// Where to point when this value is wrong as a whole.
const fn spot(entry: &Entry, shape: &Shape) -> Spot {
    match shape {
        Shape::Map(..) | Shape::MapOrNames(..) | Shape::Section(_) => entry.at,
        _ => entry.spot(),
    }
}

fn unknown(notes: &mut Notes<'_>, section: &Section, entry: &Entry, path: &str) {
    let whose = if path.is_empty() { "a fleet".to_owned() } else { format!("`{path}`") };
    let draft = error(entry.at, format!("{whose} has no key `{}`", short(&entry.key)));
    let elsewhere = section.elsewhere.iter().find(|(key, _)| *key == entry.key).map(|(_, why)| (*why).to_owned());
    let near = meant(&entry.key, section.keys().map(|key| key.name)).map(|near| format!("did you mean `{near}`?"));
    let all: Vec<_> = section.keys().map(|key| key.name).collect();
    notes.push(draft.hint(format!("{} has: {}", section.what, all.join(", "))).maybe_hint(elsewhere.or(near)));
}

fn missing(notes: &mut Notes<'_>, section: &Section, entries: &[Entry], at: Spot, path: &str) {
    let there = |name: &str| entries.iter().any(|entry| entry.key == name);
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

fn text(notes: &mut Notes<'_>, form: Form, item: &Node, path: &str) {
    match &item.value {
        Value::Text { text, .. } => form_of(notes, form, text, item.at),
        other => notes.push(error(item.at, format!("`{path}` must be a list of texts; here is {}", found(other)))),
    }
}

fn form_of(notes: &mut Notes<'_>, form: Form, text: &str, at: Spot) {
    if let Err(wrong) = form.check(text) {
        notes.push(error(at, wrong.message).maybe_hint(wrong.hint));
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
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Nothing => "nothing".to_owned(),
        Value::Text { text, .. } => format!("`{}`", short(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a map".to_owned(),
    }
}
