//! What YAML can do and a fleet must not: each message, whole; and bounds that hold.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::select;

use super::scene::{WELL, files, fleet, look, same, shown, told_of, with};
use crate::source::{Complaint, MAX_FILE_BYTES};

#[test]
fn aliases_and_anchors_are_refused() {
    let told = with("nodes:\n  a: &a {}\n") + "\n" + &with("nodes:\n  a: *a\n");
    same(
        &told,
        "
more.yaml:2:6: error: anchors (`&name`) and aliases (`*name`) are not part of a fleet
  2 |   a: &a {}
    |      ^^^^
  hint: write the value out; what machines share belongs into `org` or a class
more.yaml:2:6: error: anchors (`&name`) and aliases (`*name`) are not part of a fleet
  2 |   a: *a
    |      ^
  hint: write the value out; what machines share belongs into `org` or a class
",
    );
}

#[test]
fn merge_keys_and_tags_are_refused() {
    let told = with("nodes:\n  <<: {a: }\n") + "\n" + &with("nodes: !!map {}\n");
    same(
        &told,
        "
more.yaml:2:3: error: merge keys (`<<`) are not part of a fleet
  2 |   <<: {a: }
    |   ^^
  hint: write the values out
more.yaml:1:8: error: tags (`!name`) are not part of a fleet
  1 | nodes: !!map {}
    |        ^^^^^^^
  hint: leave it out: types follow from the key
",
    );
}

#[test]
fn a_second_document_is_refused() {
    let told = with("nodes:\n---\nusers:\n");
    same(
        &told,
        "
more.yaml:2:1: error: a second document begins here
  2 | ---
    | ^^^
  hint: put it into a file of its own
",
    );
}

#[test]
fn a_key_that_is_no_text_is_refused() {
    let told = with("nodes:\n  ? [a]\n  : b\n");
    same(
        &told,
        "
more.yaml:2:5: error: a key must be a text
  2 |   ? [a]
    |     ^
  hint: write it as `key: value`
",
    );
}

#[test]
fn a_tab_in_the_indentation_is_refused() {
    let told = with("nodes:\n\ta:\n") + "\n" + &with("nodes:\n  a:\n  \tb:\n");
    same(
        &told,
        "
more.yaml:2:1: error: a tab in the indentation
  2 |  a:
    | ^
  hint: indent with spaces: YAML allows no tabs there
more.yaml:3:3: error: a tab in the indentation
  3 |    b:
    |   ^
  hint: indent with spaces: YAML allows no tabs there
",
    );
}

#[test]
fn what_is_not_yaml_is_refused_with_its_place() {
    let told = with("nodes: {a: b\nusers: ]\n");
    same(
        &told,
        "
more.yaml:2:6: error: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'
  2 | users: ]
    |      ^
  hint: look at the indentation, and put quotes around texts with `: `, ` #`, or a leading `*`, `&`, `!`, `{`, `[`
",
    );
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    let told = told_of(&[("fleet.yaml", WELL), ("more.json", "{\"nodes\": {\"a\": null,}}\n")]);
    same(
        &told,
        r#"
more.json:1:22: error: this is not JSON: key must be a string
  1 | {"nodes": {"a": null,}}
    |                      ^
  hint: whatever wrote it should write JSON; YAML belongs into a file that ends with .yaml
"#,
    );
}

#[test]
fn a_control_character_is_refused() {
    let told = with("nodes: {a: }\0users: {}\n");
    same(
        &told,
        "
more.yaml:1:13: error: the control character U+0000
  1 | nodes: {a: }�users: {}
    |             ^
  hint: remove it, or write it as an escape within double quotes
",
    );
}

#[test]
fn what_is_not_utf8_is_refused_with_its_place() {
    let mut sources = files(&[("fleet.yaml", WELL), ("more.yaml", "nodes:\n  x: ")]);
    sources[1].bytes.extend([b'\'', 0xe9, b'\'']);
    same(
        &shown(&look(&sources).unwrap_err()),
        "
more.yaml:2:7: error: this file is not UTF-8
  2 |   x: '\u{fffd}'
    |       ^
  hint: save it as UTF-8 in your editor
",
    );
}

/// All complaints about a file that nobody would write by hand.
fn bombed(text: &str) -> Vec<Complaint> {
    look(&files(&[("fleet.yaml", WELL), ("bomb.yaml", text)])).unwrap_err()
}

#[test]
fn a_billion_laughs_end_at_the_first() {
    let mut bomb = "a: &a [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for (one, next) in ('a'..='h').zip('b'..='i') {
        writeln!(bomb, "{next}: &{next} [{}]", vec![format!("*{one}"); 9].join(", ")).unwrap();
    }
    let complaints = bombed(&bomb);
    assert_eq!(complaints.len(), 1, "{}", shown(&complaints));
    assert!(complaints[0].message.starts_with("anchors"), "{}", complaints[0]);
}

#[test]
fn what_is_nested_deeply_is_refused_however_it_is_written() {
    let indented = |n: usize| " ".repeat(n) + "a:\n";
    for bomb in [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "[{".repeat(50_000) + &"}]".repeat(50_000),
        "- ".repeat(50_000),
        "? ".repeat(50_000),
        (0..2_000).map(indented).collect::<String>(),
        "[".repeat(20) + &"]".repeat(20),
    ] {
        let complaints = bombed(&bomb);
        assert_eq!(complaints.len(), 1, "{}", shown(&complaints));
        let message = &complaints[0].message;
        assert!(message.contains("nested too deeply") || message.contains("not YAML"), "{message}");
    }
}

#[test]
fn what_is_large_is_refused_or_read_and_its_complaints_are_few() {
    let complaints = bombed(&"# x\n".repeat(MAX_FILE_BYTES / 4 + 1));
    same(
        &shown(&complaints),
        "
bomb.yaml:1:1: error: this file has 8388612 bytes; 8388608 are read at most
  1 | # x
    | ^
  hint: split it; all files together have room for 32 MiB
",
    );
    let mut many = "nodes:\n".to_owned();
    for n in 0..20_000 {
        writeln!(many, "  n-{n}: {{roles: [r-{n}], x: 1}}").unwrap();
    }
    let complaints = bombed(&many);
    assert_eq!(complaints.len(), 1001);
    assert_eq!(complaints.last().unwrap().message, "39000 more are not shown");
    let line =
        format!("{{\"nodes\": {{{}}}}}", (0..20_000).map(|n| format!("\"n-{n}\": null")).collect::<Vec<_>>().join(","));
    let read = look(&files(&[("fleet.yaml", WELL), ("line.json", &line)])).unwrap();
    assert_eq!(read.0.nodes.len(), 20_002);
}

#[test]
fn a_long_line_is_shown_around_what_is_meant() {
    let told = with(&format!("nodes: {{{}, bad_one: , {}}}\n", "'a': ".to_owned() + &" ".repeat(200), " ".repeat(200)));
    assert!(told.contains("more.yaml:1:216: error: `bad_one` is not a name"), "{told}");
    let shown = told.lines().nth(1).unwrap();
    assert!(shown.chars().count() < 140 && shown.contains("bad_one"), "{shown}");
    let mark = told.lines().nth(2).unwrap();
    assert_eq!(shown.chars().position(|c| c == 'b'), mark.chars().position(|c| c == '^'));
}

#[test]
fn a_text_means_itself_whatever_yaml_makes_of_it_elsewhere() {
    let fleet =
        fleet(&WELL.replace("  desk:\n", "  desk: {labels: {country: no, on: 1.10, y: 'true', date: 2026-11-02}}\n"));
    let labels: Vec<_> = fleet.nodes[&"desk".parse().unwrap()].labels.iter().map(ToString::to_string).collect();
    assert_eq!(labels, ["country=no", "date=2026-11-02", "on=1.10", "y=true"]);
}

#[test]
fn a_tab_within_a_delivered_text_is_no_indentation() {
    let fleet = fleet(&WELL.replace(
        "  desk:\n",
        "  desk:\n    files:\n      Makefile:\n        content: |\n          all:\n          \tmake\n",
    ));
    let files = &fleet.nodes[&"desk".parse().unwrap()].policy.files;
    assert_eq!(files[&"Makefile".parse().unwrap()].content.0, b"all:\n\tmake\n");
}

/// A piece of YAML, of a fleet, or of neither.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "org:",
        "nodes:",
        "classes:",
        "services:",
        "users:",
        "roles:",
        "groups:",
        "\n",
        "\n  ",
        "\n    ",
        " ",
        "a",
        "b-1",
        "*",
        "web-*",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ": ",
        "- ",
        "? ",
        "'",
        "\"",
        "|\n",
        ">-\n",
        "#",
        "&a ",
        "*a",
        "!x ",
        "%TAG",
        "---\n",
        "...\n",
        "\t",
        "\r\n",
        "\u{feff}",
        "\u{85}",
        "match: ",
        "at: ",
        "addr: ",
        "127.0.0.1:80",
        "checks: ",
        "files: ",
        "\\u0000",
        "name: harbor",
        "0",
        "~",
        "é",
        "<<: ",
    ];
    prop_oneof![4 => select(words.as_slice().to_vec()).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)]
}

proptest! {
    #[test]
    fn whatever_is_written_ends_in_a_fleet_or_in_words(pieces in vec(piece(), 0..40), json in any::<bool>(), more in any::<bool>()) {
        let text = pieces.concat();
        let mut sources = files(&[(if json { "x.json" } else { "x.yaml" }, &text)]);
        if more {
            sources.extend(files(&[("y.yaml", WELL)]));
        }
        match look(&sources) {
            Ok((_, warnings)) => prop_assert!(warnings.iter().all(|complaint| !complaint.is_error())),
            Err(complaints) => {
                prop_assert!(complaints.iter().any(Complaint::is_error));
                for complaint in complaints {
                    prop_assert!(complaint.to_string().chars().all(|c| c == '\n' || !c.is_control()), "{complaint}");
                }
            }
        }
    }

    #[test]
    fn a_fleet_that_is_cut_or_changed_is_read_or_refused(at in 0..WELL.len(), to in piece(), cut in any::<bool>()) {
        let mut text = WELL[..at].to_owned() + &to;
        if !cut {
            text += &WELL[at..];
        }
        let _ = look(&files(&[("x.yaml", &text)]));
    }
}

#[test]
fn json_that_yaml_cannot_hold_is_refused_and_not_misread() {
    let paired = r#"{"groups": {"pages": {"about": "\ud83d\ude00"}}}"#;
    let told = told_of(&[("fleet.yaml", &WELL.replace("groups: [pages]\n", "")), ("more.json", paired)]);
    assert!(told.starts_with("more.json:1:"), "{told}");
    assert!(told.contains("not YAML"), "{told}");
}

/// 400 classes, each with such a pattern.
fn classes(pattern: impl Fn(usize) -> String) -> String {
    let mut text = "classes:\n".to_owned();
    for nth in 0..400 {
        let _ = writeln!(text, "  c{nth}: {{match: '{}'}}", pattern(nth));
    }
    with(&text)
}

#[test]
fn patterns_of_many_stars_do_not_keep_anybody_waiting() {
    let stars = |nth: usize| (0..31).map(|at| if nth >> (at % 9) & 1 == 0 { "*a" } else { "*b" }).collect::<String>();
    let told = classes(|nth| format!("{}*", stars(nth)));
    assert!(told.contains("overlap: "), "{told}");
    // Whether these share a name is hard to say: no name has room for two of them, unless they fit into each other.
    let letter = |nth: usize, at: usize| if (nth * 31 + at * at * 7) >> (at % 8) & 1 == 0 { 'a' } else { 'b' };
    let told = classes(|nth| format!("*{}*", (0..50).map(|at| letter(nth, at)).collect::<String>()));
    let hard: Vec<&str> = told.lines().filter(|line| line.contains("takes too long")).collect();
    assert!(matches!(hard[..], [line] if line.starts_with("more.yaml:")), "{hard:?}");
    assert!(told.contains("hint: use fewer `*`, or let patterns begin differently: `web-*`, `db-*`"), "{told}");
}

/// Four thousand lines.
fn lines(line: impl Fn(usize) -> String) -> String {
    (0..4000).map(|nth| format!("  {}\n", line(nth))).collect::<Vec<_>>().concat()
}

/// One budget for all rules: whatever is compared with much else ends, and the file is named for which most was done.
#[test]
fn what_is_compared_with_all_the_rest_ends_in_time_and_names_its_file() {
    let names = |letter: &str| (0..4000).map(|nth| format!("{letter}{nth}")).collect::<Vec<_>>().join(", ");
    let nodes = format!("nodes:\n{}", lines(|nth| format!("n{nth}:")));
    let classes = format!("classes:\n{}", lines(|nth| format!("c{nth}: {{match: '*-{nth}z'}}")));
    let listeners = lines(|nth| format!("s{nth}: {{at: desk, addr: '127.9.{}.{}:80'}}", nth / 200 + 1, nth % 200 + 1));
    let invites = format!("invites:\n{}", lines(|nth| format!("i{nth}: {{names: ['i{nth}-*'], from: 10.0.0.0/8}}")));
    let serving = format!(
        "classes:\n{}services:\n  everywhere: {{addr: '127.0.0.1:81', at: [{}]}}\n",
        lines(|nth| format!("p{nth}: {{match: 'p{nth}-*'}}")),
        names("p")
    );
    let forwards =
        lines(|nth| format!("n{nth}: {{tunnel: {{forward: {{'127.0.0.1:9': {{service: wiki, user: crowd}}}}}}}}"));
    let crowd = format!("users:\n  crowd: {{nodes: [{}]}}\n", names("n"));
    for (much, rest, cure) in [
        (classes, nodes, "use fewer `*`"),
        (format!("services:\n{listeners}"), String::new(), "give fewer services one port"),
        (invites, serving, "use fewer patterns for machines that may join"),
        (format!("nodes:\n{forwards}"), crowd, "use fewer forwards"),
    ] {
        let told = told_of(&[("fleet.yaml", WELL), ("much.yaml", &much), ("rest.yaml", &rest)]);
        let hard: Vec<&str> = told.lines().filter(|line| line.contains("takes too long")).collect();
        let begins: String = told.chars().take(2000).collect();
        assert!(matches!(hard[..], [line] if line.starts_with("much.yaml:")), "{cure}: {begins}");
        assert!(told.contains(cure), "{cure}: {begins}");
    }
}

#[test]
fn what_the_org_says_is_not_repeated_without_end() {
    let forwards: Vec<String> = (0..250).map(|nth| format!("'127.0.0.1:{}': wiki", 20_000 + nth)).collect();
    let more = format!(", tunnel: {{forward: {{{}}}}}}}\nnodes:\n", forwards.join(", "));
    let org = WELL.replacen("}\nnodes:\n", &more, 1);
    let nodes: Vec<String> = (0..20_000).map(|nth| format!("  n{nth}:\n")).collect();
    let told = told_of(&[("fleet.yaml", &org), ("more.yaml", &format!("nodes:\n{}", nodes.concat()))]);
    let begins: String = told.chars().take(600).collect();
    assert!(begins.contains("fleet.yaml:1:1: error: what is said here is repeated for each machine"), "{begins}");
}
