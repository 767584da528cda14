//! `serve.toml`, variables and flags: which counts, what is refused, and what `--print-config` says of it.

use serde_json::Value;
use trials::place::{Place, ended, json, output, stderr, stdout, succeeded};
use trials::port::Claim;

use super::serving;

fn write(place: &Place, text: &str) {
    std::fs::write(place.org().join("gateway/serve.toml"), text).unwrap();
}

fn config(place: &Place) -> Value {
    place.facts(&["serve", "--print-config"])
}

#[test]
fn the_configuration_says_where_each_value_came_from() {
    let place = Place::founded(&[]);
    let plain = stdout(&place.freehold(&["serve", "--print-config"]));
    assert!(plain.contains("# default\nmax_connections = 20000\n"), "{plain}");
    assert!(plain.contains(&format!("# default\nlisten = \"[::]:{}\"\n", place.port)), "{plain}");
    write(&place, "max_connections = 5\nmax_failed_attempts = 5\nmax_unfinished_attempts = 5\n");
    let mut command = place.freehold_command(&["serve", "--print-config", "--max-unfinished-attempts", "7"]);
    command.env("FREEHOLD_MAX_FAILED_ATTEMPTS", "6").env("FREEHOLD_MAX_UNFINISHED_ATTEMPTS", "6");
    let told = output(command);
    succeeded(&told);
    let told = stdout(&told);
    let file = place.org().join("gateway/serve.toml");
    for lines in [
        format!("# the file {}\nmax_connections = 5\n", file.display()),
        "# the variable FREEHOLD_MAX_FAILED_ATTEMPTS\nmax_failed_attempts = 6\n".to_owned(),
        "# the flag --max-unfinished-attempts\nmax_unfinished_attempts = 7\n".to_owned(),
        "# default\nmetrics = \"off\"\n".to_owned(),
    ] {
        assert!(told.contains(&lines), "no `{lines}` in {told}");
    }
    // What was printed is a configuration itself, and says the same.
    write(&place, &told);
    let again = config(&place);
    assert_eq!(again["max_unfinished_attempts"], serde_json::json!({"value": 7, "from": "file"}));
    assert!(again.as_object().unwrap().values().all(|setting| setting["from"] == "file"), "{again}");
    assert!(!place.org().join("gateway/serving.json").exists(), "it served");
}

#[test]
fn a_gateway_goes_by_its_file_and_by_its_variables() {
    let place = Place::founded(&[]);
    let claim = Claim::new();
    let metrics = claim.to_string();
    write(&place, &format!("listen = \"{}\"\nmax_failed_attempts = 1\n", place.address()));
    let mut command = place.freehold_command(&["serve", "--json"]);
    command.env("FREEHOLD_METRICS", &metrics);
    let (_gateway, ready) = serving(command);
    assert!(ready.contains(&format!("\"listen\":\"{}\"", place.address())), "{ready}");
    assert!(super::http(&metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200"));
    // One failure is one too many now.
    let code = place.code(&["--uses", "2", "--name", "web-*"]);
    let first = place.node("a", &["join", "--name", "db-1"], &code);
    ended(&first, 3, "the invite does not allow the name");
    let second = place.node("a", &["join", "--name", "web-1"], &code);
    assert!(stderr(&second).contains("too many failed or unfinished attempts"), "{}", stderr(&second));
    // While it serves, the configuration can be looked at.
    assert_eq!(config(&place)["max_failed_attempts"]["value"], 1);
}

#[test]
fn mistakes_are_refused_with_what_was_meant() {
    let place = Place::founded(&[]);
    let check = |text: &str, why: &str, hint: &str| {
        write(&place, text);
        for words in [&["serve"][..], &["serve", "--print-config"]] {
            let told = place.freehold(words);
            ended(&told, 2, why);
            assert!(stderr(&told).contains(hint), "{}", stderr(&told));
        }
    };
    check("lisen = \"127.0.0.1:1\"\n", "has no key `lisen` (did you mean `listen`?)", "mend the file");
    check("[limits]\nmax_connections = 4\n", "has no key `limits`", "mend the file");
    check("listen = \n", "line 1:", "mend the file");
    check("max_connections = \"many\"\n", "max_connections: invalid type", "mend the file");
    write(&place, "");
    let mut command = place.freehold_command(&["serve"]);
    command.env("FREEHOLD_MAX_CONNECTIONS", "0");
    let told = output(command);
    ended(&told, 2, "the variable FREEHOLD_MAX_CONNECTIONS is `0`");
    assert!(stderr(&told).contains("unset it"), "{}", stderr(&told));
    ended(&place.freehold(&["serve", "--max-connections", "0"]), 2, "invalid value '0'");
}

#[test]
fn metrics_are_shown_to_this_machine_unless_more_is_written_out() {
    let place = Place::founded(&[]);
    let told = place.freehold(&["serve", "--metrics", "0.0.0.0:0"]);
    ended(&told, 2, "could be read by others than this machine");
    assert!(stderr(&told).contains("--metrics-open"), "{}", stderr(&told));
    let _gateway = super::serve(&place, &["--metrics", "0.0.0.0:0", "--metrics-open"]);
    place.joined("web-1");
    let told = place.node("web-1", &["run", "--metrics", "0.0.0.0:0"], "");
    ended(&told, 2, "could be read by others than this machine");
    // A port that is taken stops the start, instead of leaving whoever watches in the dark.
    let taken = place.address();
    ended(&place.node("web-1", &["run", "--metrics", &taken], ""), 1, &format!("cannot show metrics on {taken}"));
    assert_eq!(json(&place.node("web-1", &["status", "--json"], ""))["running"], false);
}
