//! The certificate store of the system: a machine works without one, and believes nobody for being in it.

use std::fs;
use std::process::{Command, Stdio};

use ground::random;
use identity::bundle::Endpoint;
use trials::attack::impostor::{Impostor, Papers};
use trials::attack::thief::{Thief, a_day, endpoint};
use trials::place::{Place, output, stderr, stdout, succeeded};

use super::NewRoot;

/// Hides every place where systems keep the roots of public authorities, and puts this instead.
const STORE: &str = r#"set -e
for folder in /etc/ssl /etc/pki /usr/lib/ssl /usr/share/ca-certificates /usr/local/share/ca-certificates; do
    if [ -d "$folder" ]; then mount -t tmpfs tmpfs "$folder"; fi
done
if [ -n "$STORE" ]; then mkdir -p /etc/ssl/certs; cp "$STORE" /etc/ssl/certs/ca-certificates.crt; fi
exec "$@""#;

/// A command on a machine whose store holds these roots and no others.
fn on_a_system(store: &str, command: &Command) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", STORE, "sh"]).arg(command.get_program()).args(command.get_args());
    inside.env("STORE", store).env("SSL_CERT_FILE", store).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        inside.env(name, value.unwrap_or_default());
    }
    inside
}

fn curl(place: &Place) -> Command {
    let mut command = Command::new("curl");
    command.args(["-sS", "--fail", "--noproxy", "*", &format!("https://{}/v1/head", place.address())]);
    command
}

#[test]
fn a_machine_needs_no_store_of_its_system_and_believes_nobody_for_being_in_it() {
    let place = Place::founded(&["--node", "quay"]);
    let gateway = place.serve();
    let join = |node: &str| {
        let mut command = place.node_command(node, &["join", "--name", node]);
        command.env("FREEHOLD_INVITE", place.code(&["--name", node]));
        command
    };
    succeeded(&output(on_a_system("", &join("web-1"))));
    succeeded(&output(on_a_system("", &place.node_command("web-1", &["sync"]))));

    // Somebody who is in the store, at the gateway's address.
    let root = NewRoot::<Endpoint>::make();
    let store = place.path("store.pem");
    fs::write(&store, root.pem()).unwrap();
    let store = store.to_string_lossy().into_owned();
    let key = random::p256().unwrap();
    let who = ("harbor".parse().unwrap(), "quay".parse().unwrap());
    let issuer = root.0.certify_issuer(&who.0, &who.1, &key, random::serial().unwrap(), a_day()).unwrap();
    let late = join("late");
    drop(gateway);
    let own = endpoint(&issuer, "127.0.0.1", root.certificate());
    let _impostor = Impostor::serve(place.port, &own, Papers::of(Thief::of(&place).known()));
    let by_store = output(on_a_system(&store, &curl(&place)));
    assert!(by_store.status.success(), "the store works for others: {}{}", stdout(&by_store), stderr(&by_store));
    for command in [late, place.node_command("web-1", &["sync"])] {
        let told = output(on_a_system(&store, &command));
        assert!(!told.status.success(), "{}", stdout(&told));
        assert!(stderr(&told).contains("does not lead to a root that is trusted here"), "{}", stderr(&told));
    }
    assert!(!place.scope("late").exists(), "nothing is left");
}
