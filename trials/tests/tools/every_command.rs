//! Every command of both programs: its exit codes are those of the documents, and with `--json` all that it says is JSON.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::place::{Place, binary, json, output, stderr, stdout, succeeded};

/// A command, the rest of a line that it takes, and how that ends without a terminal: if the private keys are under a
/// passphrase that nobody gives, and if it is given.
struct Row {
    line: &'static str,
    locked: i32,
    opened: i32,
}

const fn row(line: &'static str, locked: i32, opened: i32) -> Row {
    Row { line, locked, opened }
}

/// What runs until it is stopped, changes the machine, or prints what is a document: pages, scripts, the schema.
const ELSEWHERE: [&str; 15] = [
    "freehold agent",
    "freehold unlock",
    "freehold fleet schema",
    "freehold completions",
    "freehold man",
    "freehold-node completions",
    "freehold-node man",
    "freehold serve",
    "freehold tunnel run",
    "freehold keep",
    "freehold-node keep",
    "freehold-node run",
    "freehold-node tunnel run",
    "freehold-node service install",
    "freehold-node service remove",
];

const ROWS: &[Row] = &[
    row("freehold found | reef --another --advertise 127.0.0.1:9", 2, 2),
    row("freehold audit", 0, 0),
    row("freehold backup create | --out backup", 2, 2),
    row("freehold backup verify | backup", 1, 1),
    row("freehold backup restore | backup", 1, 1),
    row("freehold bundle issue | web-9", 2, 0),
    row("freehold bundle sign | request --out answer", 1, 1),
    row("freehold fleet init | fleet", 0, 1),
    row("freehold check | fleet", 0, 0),
    row("freehold access | --matrix fleet", 0, 0),
    row("freehold compile | fleet --out compiled", 0, 0),
    row("freehold plan | fleet", 0, 0),
    row("freehold publish | fleet", 2, 2),
    row("freehold publish | fleet --dry-run", 0, 0),
    row("freehold rollback", 2, 1),
    row("freehold confirm | web-1", 2, 1),
    row("freehold doctor", 1, 1),
    row("freehold gateway list", 0, 0),
    row("freehold gateway add | grant", 1, 1),
    row("freehold gateway address list", 0, 0),
    row("freehold gateway address add | quay 127.0.0.9 --untried", 2, 2),
    row("freehold gateway address remove | quay 127.0.0.9", 2, 1),
    row("freehold gateway move | web-1", 2, 1),
    row("freehold gateway remove | quay", 2, 2),
    row("freehold gateway renew | quay", 2, 0),
    row("freehold gateway reopen | web-1", 2, 1),
    row("freehold here caller | 127.0.0.1:9", 1, 1),
    row("freehold here doctor", 1, 1),
    row("freehold here port", 1, 1),
    row("freehold here status", 0, 0),
    row("freehold here sync", 1, 1),
    row("freehold here top", 1, 1),
    row("freehold here trust paths", 0, 0),
    row("freehold invite approve | web-*", 2, 2),
    row("freehold invite create", 2, 0),
    row("freehold invite list", 0, 0),
    row("freehold invite revoke | INVITE", 2, 2),
    row("freehold invite show | INVITE", 0, 0),
    row("freehold invite waivers", 0, 0),
    row("freehold landing | --out landing", 0, 0),
    row("freehold mandate list", 0, 0),
    row("freehold mandate change | quay --svid-ttl 8h", 2, 2),
    row("freehold node list", 0, 0),
    row("freehold node show | web-1", 0, 0),
    row("freehold node waiting", 0, 0),
    row("freehold node approve | web-1", 2, 3),
    row("freehold node deny | web-1", 2, 3),
    row("freehold node replace | web-1", 2, 2),
    row("freehold node revoke | web-1", 2, 2),
    row("freehold suspend | web-1", 2, 2),
    row("freehold org card | --out card", 0, 0),
    row("freehold org list", 0, 0),
    row("freehold recover", 2, 2),
    row("freehold refresh", 2, 0),
    row("freehold release add | agent", 1, 1),
    row("freehold release list", 0, 0),
    row("freehold release show", 1, 1),
    row("freehold release prune", 0, 0),
    row("freehold send | none", 1, 1),
    row("freehold sign | none", 1, 1),
    row("freehold signer list", 0, 0),
    row("freehold signer new | bob --org harbor", 2, 0),
    row("freehold signer add | bob --key none", 2, 2),
    row("freehold signer remove | ann", 2, 1),
    row("freehold signer replace | ann bob", 2, 2),
    row("freehold signer settle", 2, 3),
    row("freehold signer threshold | 1", 2, 2),
    row("freehold status", 0, 0),
    row("freehold token show | pkcs11:token=none?module-path=/none.so", 1, 1),
    row("freehold token generate | pkcs11:token=none;object=a?module-path=/none.so", 1, 1),
    row("freehold trust list", 0, 0),
    row("freehold trust show | identity", 0, 0),
    row("freehold trust plan activate | identity", 3, 3),
    row("freehold trust plan publish | identity", 0, 0),
    row("freehold trust plan retire | identity 1", 3, 3),
    row("freehold trust plan rollback | identity", 3, 3),
    row("freehold trust activate | identity", 2, 3),
    row("freehold trust publish | identity", 2, 0),
    row("freehold trust retire | identity 1", 2, 3),
    row("freehold trust rollback | identity", 2, 0),
    row("freehold rotate | identity --no-wait", 2, 5),
    row("freehold user add | eve --node web-1", 2, 0),
    row("freehold user list", 0, 0),
    row("freehold user revoke | ann", 2, 2),
    row("freehold lock", 0, 0),
    row("freehold join | --code x", 2, 2),
    // From here on no key is left.
    row("freehold signer hand-over | ann --to there", 0, 1),
    row("freehold-node caller | 127.0.0.1:9", 1, 1),
    row("freehold-node csr | --out request", 0, 0),
    row("freehold-node doctor", 1, 1),
    row("freehold-node gateway install | none", 1, 1),
    row("freehold-node gateway request | --address 127.0.0.1:9 --out request", 0, 0),
    row("freehold-node gateway serve", 1, 1),
    row("freehold-node join", 2, 2),
    row("freehold-node port", 1, 1),
    row("freehold-node service status", 0, 0),
    row("freehold-node status", 0, 0),
    row("freehold-node sync", 1, 1),
    row("freehold-node top", 1, 1),
    row("freehold-node trust paths", 0, 0),
    row("freehold-node leave", 2, 2),
];

/// The words of every command that has none below it, hidden ones too: each has a page of the manual.
fn commands(place: &Place, program: &str) -> BTreeSet<String> {
    let folder = place.path(&format!("{program}-manual"));
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(binary(program));
    command.args(["man", "--out"]).arg(&folder);
    succeeded(&output(command));
    let pages = std::fs::read_dir(&folder).unwrap().map(|page| std::fs::read_to_string(page.unwrap().path()).unwrap());
    let words = |page: String| {
        let synopsis = page.split_once(".SH SYNOPSIS\n")?.1;
        let words = synopsis.strip_prefix("\\fB")?.split_once("\\fR")?.0.replace('\\', "");
        (!page.contains(".SH SUBCOMMANDS")).then_some(words)
    };
    pages.filter_map(words).collect()
}

fn split(line: &str) -> (String, Vec<&str>) {
    let (words, rest) = line.split_once(" | ").unwrap_or((line, ""));
    (words.to_owned(), rest.split_whitespace().collect())
}

/// In the place's home and root, with nobody there to answer.
fn run(place: &Place, words: &str, rest: &[&str]) -> Output {
    let mut words = words.split(' ');
    let program = words.next().unwrap();
    let mut command = Command::new(binary(program));
    command.args(words).args(rest).current_dir(place.path("")).stdin(Stdio::null()).env("USER", "ann");
    match program {
        "freehold" => command.arg("--home").arg(place.home()),
        _ => command.arg("--root").arg(place.root("web-1")),
    };
    output(command)
}

/// The one JSON object at the end of what it says on stderr.
fn error(output: &Output) -> Value {
    let told = stderr(output);
    let last = told.lines().last().unwrap_or_default();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|why| panic!("not JSON ({why}): {told}"));
    assert!(error["error"].is_string() && error["causes"].is_array() && !last.contains('`'), "{error}");
    error
}

/// What is said in another form than all the rest: dates are of RFC 3339 in UTC, and spans are numbers of seconds.
///
/// And nothing has the marks around names that people read.
fn odd_forms(key: &str, value: &Value) -> Vec<String> {
    // A difference quotes what the fleet says.
    let is_quoted = ["from", "to"].contains(&key);
    let is_date = key.ends_with("_at")
        || key.ends_with("until")
        || key.ends_with("since")
        || ["not_after", "not_before", "last_seen", "deadline"].contains(&key);
    let is_span = key.ends_with("ttl") || key.ends_with("_delay") || ["left", "lasts", "freshness"].contains(&key);
    let is_odd = match value {
        Value::Object(fields) => return fields.iter().flat_map(|(key, value)| odd_forms(key, value)).collect(),
        Value::Array(values) => return values.iter().flat_map(|value| odd_forms(key, value)).collect(),
        Value::String(text) => {
            let date = text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
            let number = text.strip_suffix(['s', 'm', 'h', 'd']).map(str::parse::<u64>);
            (is_date && !date)
                || is_span
                || text.contains('`')
                || (number.is_some_and(|number| number.is_ok()) && !is_quoted)
        }
        Value::Number(_) => is_date,
        Value::Bool(_) | Value::Null => false,
    };
    if is_odd { vec![format!("{key}: {value}")] } else { Vec::new() }
}

#[test]
fn a_line_that_no_command_takes_is_told_as_json_if_that_is_asked_for() {
    let place = Place::new();
    for program in ["freehold", "freehold-node"] {
        // Whatever follows `freehold join`, it says which program joins.
        for words in commands(&place, program).into_iter().filter(|words| words != "freehold join") {
            let told = run(&place, &words, &["--json", "--no-such-option"]);
            assert_eq!(told.status.code(), Some(2), "{words}: {}", stderr(&told));
            assert!(error(&told)["causes"][0].as_str().is_some_and(|why| why.contains("--no-such-option")), "{words}");
        }
        let told = run(&place, program, &["--json"]);
        assert_eq!((told.status.code(), stdout(&told)), (Some(2), String::new()));
        assert_eq!(error(&told)["causes"][0], "a command is missing");
        let help = run(&place, program, &["--json", "--help"]);
        assert!(help.status.success() && stdout(&help).contains("Usage:"), "{}", stderr(&help));
        assert!(!stdout(&help).contains("\nMore:"), "a command stands in no group: {}", stdout(&help));
    }
}

#[test]
fn a_hint_repeats_the_home_and_the_org_that_were_typed() {
    let place = Place::new();
    let home = place.home().display().to_string();
    let told = run(&place, "freehold node list", &["--json"]);
    let hint = error(&told)["hint"].as_str().unwrap().to_owned();
    assert!(hint.starts_with(&format!("found one: freehold found NAME --home {home};")), "{hint}");
    succeeded(&run(&place, "freehold found", &["harbor", "--unprotected", "--advertise", &place.address()]));
    let told = run(&place, "freehold invite show", &["00", "--org", "harbor", "--json"]);
    assert_eq!(error(&told)["hint"], format!("see which there are: freehold invite list --home {home} --org harbor"));
    let told = run(&place, "freehold here sync", &["--json"]);
    assert!(
        error(&told)["hint"].as_str().unwrap().contains(&format!("freehold here doctor --home {home}")),
        "{told:?}"
    );
    let told = run(&place, "freehold-node status", &["--json"]);
    let root = place.root("web-1").display().to_string();
    assert!(error(&told)["hint"].as_str().unwrap().contains(&format!("freehold-node join --root {root}")), "{told:?}");
}

/// A question that is about to be asked names the org that it is about, and the folder of the one who asks.
fn check_question(place: &Place, line: &str, why: &str) {
    let Some((_, question)) = why.split_once("there is no terminal to ask at: ") else { return };
    let folder = place.path("").display().to_string();
    let is_about = question.contains("harbor") && question.contains(folder.trim_end_matches('/'));
    let founds = line.starts_with("freehold found ");
    assert!(is_about || founds, "`{line}` asks: {question}");
    // And whom it hits.
    let destroys = ["revoke", "remove", "suspend", "leave", "replace", "change"];
    let whom = line.split(" | ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("web-1");
    let is_named = !destroys.iter().any(|word| line.contains(word)) || question.contains(whom);
    assert!(is_named || line.contains("signer"), "`{line}` asks: {question}");
}

#[test]
fn every_command_ends_as_documented_where_nobody_answers_and_all_that_it_says_is_json() {
    let place = Place::new();
    let passphrase = place.passphrase("sea");
    let address = place.address();
    let open = ["--passphrase-file", &passphrase];
    succeeded(&run(
        &place,
        "freehold found",
        &[&["harbor", "--node", "quay", "--advertise", &address][..], &open].concat(),
    ));
    let invite = json(&run(&place, "freehold invite create", &[&["--json"][..], &open].concat()));
    let gateway = place.serve();
    succeeded(&place.join("web-1", invite["code"].as_str().unwrap()));
    assert_eq!(gateway.stop(), Some(0));
    let mut left: BTreeSet<String> = commands(&place, "freehold");
    left.extend(commands(&place, "freehold-node"));
    left.retain(|words| !ELSEWHERE.contains(&words.as_str()));
    let mut wrong = Vec::new();
    for Row { line, locked, opened } in ROWS {
        let line = line.replace("INVITE", invite["id"].as_str().unwrap());
        let (words, rest) = split(&line);
        left.remove(&words);
        let more: &[(&[&str], i32)] =
            if words.starts_with("freehold ") { &[(&[], *locked), (&open, *opened)] } else { &[(&[], *opened)] };
        for (more, exit) in more {
            let told = run(&place, &words, &[&rest[..], more, &["--json"]].concat());
            if told.status.code() != Some(*exit) {
                wrong.push(format!("`{line}` {more:?} ended with {:?}: {}", told.status.code(), stderr(&told)));
                continue;
            }
            if told.stdout.is_empty() {
                check_question(&place, &line, error(&told)["causes"][0].as_str().unwrap());
                continue;
            }
            let facts = serde_json::from_slice(&told.stdout).unwrap_or_else(|why| panic!("`{line}` is no JSON: {why}"));
            wrong.extend(odd_forms("", &facts).into_iter().map(|odd| format!("`{line}` says {odd}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(left, BTreeSet::new(), "no row for these");
}
