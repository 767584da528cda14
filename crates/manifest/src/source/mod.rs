//! Files become a fleet (desired state), or complaints: every one at once, each with its place, its line and what to
//! do.

// What is said, and where.
mod complaint;
mod place;
mod tree;

// What may be said: one table.
mod form;
mod keys;
mod shape;
mod schema;

// What it means, and what only the whole shows.
mod names;
mod tunnel;
mod machine;
mod svid;
mod spots;
mod rules;
mod build;

#[cfg(test)]
mod tests;

use identity::id::OrgId;
use identity::principal::OrgName;

pub use complaint::{Complaint, Mark, Related, Severity, SourcePlace};
pub use keys::MAX_DELIVERED;
pub use place::SourceFile;
pub use place::meant;
pub use schema::schema;
pub use tree::{MAX_BYTES, MAX_FILE_BYTES};

use crate::fleet::Fleet;
use crate::stored::FileName;
use place::{Notes, Spot, error};
use tree::{Budget, Node, Value};

/// An org that is known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownOrg {
    pub name: OrgName,
    pub id: OrgId,
}

/// Gets a file of the fleet's folder that is to be delivered, or says why not.
pub type Attached<'f> = dyn Fn(&FileName) -> Result<Vec<u8>, String> + 'f;

/// Whether a file of a fleet's folder is read as a part of the fleet.
pub fn is_source(path: &str) -> bool {
    let ends = [".yaml", ".yml", ".json"].iter().any(|end| path.len() > end.len() && path.ends_with(end));
    ends && !path.starts_with("files/") && !path.split('/').any(|part| part.starts_with('.'))
}

/// Reads a fleet. If orgs are known here, it must be of one of them. With the fleet come warnings.
pub fn read(
    files: &[SourceFile],
    attached: &Attached<'_>,
    known: &[KnownOrg],
) -> Result<(Fleet, Vec<Complaint>), Vec<Complaint>> {
    let mut notes = Notes::new(files);
    let trees = plant(&mut notes, files);
    // What is missing may stand in a file that cannot be read: then nothing is said about what is missing.
    let whole = trees.len() == files.len();
    let fleet = if whole && files.is_empty() {
        notes.push(
            place::error_about(None, "there is no fleet: no file ends with .yaml, .yml or .json")
                .hint("make an example to start from: freehold fleet init DIR"),
        );
        None
    } else {
        for tree in &trees {
            let at = Spot { width: 1, ..tree.at };
            let about = "each file of a fleet is a map of these";
            let subject = shape::Subject { node: tree, at, path: "", about };
            shape::check(&mut notes, &keys::Shape::Section(&keys::FLEET), subject);
        }
        whole.then(|| build::build(&mut notes, &trees, attached, known)).flatten()
    };
    let failed = notes.has_errors();
    let complaints = notes.finish();
    match fleet {
        Some(fleet) if !failed => Ok((fleet, complaints)),
        _ => Err(complaints),
    }
}

/// Every file that is one document within bounds.
fn plant(notes: &mut Notes<'_>, files: &[SourceFile]) -> Vec<Node> {
    let mut budget = Budget::default();
    let mut room = MAX_BYTES;
    let mut trees = Vec::with_capacity(files.len());
    for (file, source) in files.iter().enumerate() {
        let size = source.bytes.len();
        let first = Spot { file, line: 1, column: 0, width: 1 };
        if size > MAX_FILE_BYTES || size > room {
            let most = MAX_FILE_BYTES.min(room);
            let draft = error(first, format!("this file has {size} bytes; {most} are read at most"));
            notes.push(draft.hint("split it; all files together have room for 32 MiB"));
            continue;
        }
        room -= size;
        let Some(text) = clean(notes, file, &source.bytes, is_json(&source.path)) else { continue };
        trees.extend(tree::read(notes, file, text, &mut budget).map(|tree| Node {
            value: if matches!(tree.value, Value::Nothing) { Value::Map(Vec::new()) } else { tree.value },
            ..tree
        }));
    }
    trees
}

fn is_json(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ending == "json")
}

/// The text of a file, if it is one that a parser cannot misread.
fn clean<'s>(notes: &mut Notes<'_>, file: usize, bytes: &'s [u8], json: bool) -> Option<&'s str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => {
            let at = notes.spot_of_byte(file, why.valid_up_to());
            notes.push(error(at, "this file is not UTF-8").hint("save it as UTF-8 in your editor"));
            return None;
        }
    };
    let control = |(at, c): &(usize, char)| match c {
        '\n' | '\t' => false,
        '\r' => bytes.get(at + 1).is_none_or(|next| *next != b'\n'),
        c => c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'),
    };
    if let Some((at, c)) = text.char_indices().find(control) {
        let draft = error(notes.spot_of_byte(file, at), format!("the control character U+{:04X}", u32::from(c)));
        notes.push(draft.hint("remove it, or write it as an escape within double quotes"));
        return None;
    }
    if json {
        return strict_json(notes, file, text).then_some(text);
    }
    let tabbed = |line: &str| line.starts_with('\t') && !line.trim().is_empty();
    if let Some((line, _)) = text.lines().enumerate().find(|(_, line)| tabbed(line)) {
        notes.push(tree::tab(Spot { file, line: line + 1, column: 0, width: 1 }));
        return None;
    }
    Some(text)
}

/// JSON is read by the parser for YAML, but must be JSON.
fn strict_json(notes: &mut Notes<'_>, file: usize, text: &str) -> bool {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => true,
        Err(why) => {
            let at = Spot { file, line: why.line().max(1), column: why.column().saturating_sub(1), width: 1 };
            let message = why.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            notes.push(
                error(at, format!("this is not JSON: {message}"))
                    .hint("whatever wrote it should write JSON; YAML belongs into a file that ends with .yaml"),
            );
            false
        }
    }
}
