//! No function takes a tuple: whoever reads a call of one sees no names.

use super::modules::{Module, crates};

/// Functions of a file that take a tuple.
fn taking_tuples(text: &str) -> Vec<String> {
    let starts = text.match_indices("fn ").filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()));
    let takes = starts.filter_map(|(at, word)| {
        let rest = &text[at + word.len()..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let rest = &rest[name.len()..];
        let rest = if rest.starts_with('<') { &rest[enclosed(rest)..] } else { rest };
        let within = rest.starts_with('(').then(|| &rest[1..enclosed(rest) - 1])?;
        parts(within).into_iter().any(is_tuple).then_some(name)
    });
    takes.collect()
}

/// A parameter of the type `(A, B)`, however it is lent.
fn is_tuple(parameter: &str) -> bool {
    let depth_of = |at: usize| depths(parameter)[at];
    let colon = parameter.match_indices(": ").find(|(at, _)| depth_of(*at) == 0);
    let Some((at, _)) = colon else { return false };
    let mut lent = parameter[at + 2..].trim();
    while let Some(rest) = lent.strip_prefix('&') {
        let rest = rest.strip_prefix('\'').map_or(rest, |rest| rest.split_once(' ').map_or("", |(_, rest)| rest));
        lent = rest.strip_prefix("mut ").unwrap_or(rest).trim();
    }
    lent.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).is_some_and(|within| parts(within).len() > 1)
}

/// How deep each byte lies in brackets.
fn depths(text: &str) -> Vec<usize> {
    let (mut depth, mut before) = (0_usize, ' ');
    let mut of = |c: char| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '>' if before != '-' && before != '=' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        depth
    };
    text.chars().flat_map(|c| std::iter::repeat_n(of(c), c.len_utf8())).collect()
}

/// So long is what begins with a bracket, up to the one that closes it.
pub(super) fn enclosed(text: &str) -> usize {
    depths(text).iter().position(|depth| *depth == 0).map_or(text.len(), |at| at + 1)
}

/// What stands between commas that are in no bracket.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let depths = depths(text);
    let commas = text.match_indices(',').map(|(at, _)| at).filter(|at| depths[*at] == 0);
    let (mut from, mut parts) = (0, Vec::new());
    for at in commas.chain([text.len()]) {
        parts.push(text[from..at].trim());
        from = at + 1;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn a_function_that_takes_a_tuple_is_found() {
    let text = "fn a<F: Fn((u8, u8)) -> u8>(of: F, why: &(dyn Error + 'static)) fn b((x, y): (u8, &str))
        fn c(&self, one: u8, both: &'a mut (u8, u8)) fn d(many: Vec<(u8, u8)>, f: impl Fn(u8, (u8, u8))) fn e(none: ())";
    assert_eq!(taking_tuples(text), ["b", "c"]);
}

#[test]
fn no_function_takes_a_tuple() {
    let tops = crates().into_iter().flat_map(|at| [at.join("src/lib.rs"), at.join("src/main.rs")]);
    let mut takes = Vec::new();
    for file in tops.filter(|file| file.exists()) {
        let top = Module::read(&file, Vec::new(), true);
        for module in top.all() {
            let place = format!("{}: {}", file.display(), module.path.join("::"));
            takes.extend(taking_tuples(&module.text).into_iter().map(|name| format!("{place}::{name}")));
        }
    }
    assert!(takes.is_empty(), "give each its own name, or both a type:\n{}", takes.join("\n"));
}
