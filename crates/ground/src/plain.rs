//! Text of others, as a terminal or a log may have it.

/// As a terminal may have it. Labels, and the words of a gateway or of a file, are others' to choose: nothing in them
/// moves the cursor, hides a line or turns the direction of writing.
pub fn plain(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && c != '\n' && c != '\t') || turns(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_does_not_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\r\u{9b}d\n\te"), "a\\u{1b}[2Jb\\u{202e}c\\u{d}\\u{9b}d\n\te");
    }
}
