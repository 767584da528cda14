//! What stands in a document: its paragraphs, and what is in code quotes there.

/// Folders of the repository, as documents begin a path. A crate's name begins one too.
pub(super) const TOP: [&str; 7] = ["crates", "trials", "docs", "scripts", "fuzz", ".ci", ".config"];
/// Not in the repository: made when something runs.
const MADE: [&str; 1] = ["fuzz/artifacts"];

/// A code span, and what stands between it and the one before.
pub(super) struct Span {
    pub(super) between: String,
    pub(super) text: String,
}

pub(super) fn spans(paragraph: &str) -> Vec<Span> {
    let parts: Vec<_> = paragraph.split('`').collect();
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| Span { between: pair[0].to_owned(), text: pair[1].to_owned() }).collect()
}

/// Paragraphs, items of lists and rows of tables, each with the number of its first line; without what is fenced.
pub(super) fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = vec![(1, String::new())];
    for (number, line) in outside_of_fences(text) {
        let line = line.trim();
        let is_item = line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        if line.is_empty() || is_item || line.starts_with(['|', '#']) {
            found.push((number, String::new()));
        }
        let paragraph = &mut found.last_mut().unwrap().1;
        paragraph.push_str(line);
        paragraph.push(' ');
    }
    found
}

/// Each line with its number.
pub(super) fn outside_of_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((at + 1, line))
    })
}

/// Paths that begin at the top of the repository, wherever they stand in a line, up to what stands for something else.
pub(super) fn top_paths(line: &str) -> impl Iterator<Item = String> {
    let words = line.split(|c: char| c.is_whitespace() || "`()[]\"',;:|#".contains(c));
    let ours = words.filter(|word| word.split_once('/').is_some_and(|(first, _)| TOP.contains(&first)));
    let plain = ours.map(|word| {
        let stands_for = |part: &&str| part.contains(['<', '…', '$']) || part.chars().all(|c| c.is_ascii_uppercase());
        word.trim_end_matches(['.', '/']).split('/').take_while(|part| !stands_for(part)).collect::<Vec<_>>().join("/")
    });
    plain.filter(|path| path.contains('/') && !MADE.iter().any(|made| path.starts_with(made)))
}

/// `name`, `Type::name`, `Type<Of>::name`, `name()`: its parts.
pub(super) fn identifier(text: &str) -> Option<Vec<&str>> {
    let parts = text.trim_end_matches("()").split("::").map(|part| part.split('<').next().unwrap());
    let is_name = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let parts: Vec<_> = parts.collect();
    parts.iter().all(|part| is_name(part)).then_some(parts)
}

/// Whether a name is one of the code rather than a word of a command line.
pub(super) fn is_ours(name: &[&str]) -> bool {
    let camel = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase()) && part.contains(|c: char| c.is_ascii_lowercase())
    };
    name.len() > 1 || name[0].contains('_') || camel(name[0])
}
