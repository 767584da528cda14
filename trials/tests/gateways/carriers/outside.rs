//! A root of somebody else, for a gateway behind a web server: good for downloads from its name, and for nothing else.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trials::network::shelf::{Credential, Shelf, Way};
use trials::place::{Place, Running, ended, openssl, output, refused, stderr, stdout, succeeded, text, until};

use super::{Carrier, founded};

const KEY: [&str; 6] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"];

/// Somebody's authority, as two files in a folder.
fn authority(folder: &Path) {
    openssl(
        folder,
        &[&["req", "-x509"], &KEY[..], &["ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=outside"]].concat(),
    );
}

/// A certificate by that authority, for a web server.
fn certify(folder: &Path, carrier: &Carrier, name: &str) {
    let names = format!("subjectAltName={name}");
    openssl(
        folder,
        &[&["req", "-new"], &KEY[..], &["web.key", "-out", "web.csr", "-subj", "/CN=web", "-addext", &names]].concat(),
    );
    let words =
        ["x509", "-req", "-in", "web.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
    openssl(folder, &[&words[..], &["-copy_extensions", "copy", "-out", "web.pem"]].concat());
    for (made, used) in [("web.pem", "outer.pem"), ("web.key", "outer.key")] {
        std::fs::copy(folder.join(made), carrier.at.path(used)).unwrap();
    }
}

/// nginx that hands on files, too.
fn nginx(place: &Place, name: &str) -> Carrier {
    let gateway = place.port;
    let files =
        format!("}} location /v1/file/ {{ proxy_pass https://127.0.0.1:{gateway}; proxy_ssl_protocols TLSv1.3;");
    let carrier = Carrier::nginx(gateway, &files);
    certify(&place.path(""), &carrier, name);
    carrier
}

/// Adds the authority for 127.0.0.1, and turns to that.
fn add(place: &Place) -> Value {
    let staged = place.facts(&["trust", "publish", "endpoint", "--outside", "ca.pem", "--for", "127.0.0.1"]);
    let nodes = place.facts(&["node", "list"]);
    let nodes = nodes.as_array().unwrap().iter().map(|node| text(node, "name"));
    let anyway: Vec<String> = nodes.flat_map(|name| ["--anyway".to_owned(), name]).collect();
    let anyway: Vec<&str> = anyway.iter().map(String::as_str).collect();
    succeeded(&place.freehold(&[&["trust", "activate", "endpoint"], &anyway[..]].concat()));
    staged
}

pub fn release(place: &Place) {
    let agent = place.path("freehold-node");
    std::fs::write(&agent, crate::line::real_agent()).unwrap();
    succeeded(&place.freehold(&["release", "add", &agent.to_string_lossy()]));
}

/// The line in a real shell, on a machine with a folder of its own.
pub fn paste(place: &Place, name: &str, line: &str) -> Output {
    let (bin, orgs) = (place.path(&format!("{name}-bin")), place.path(&format!("{name}-orgs")));
    let mut command = Command::new("dash");
    command.env("FREEHOLD_BIN", bin).env("FREEHOLD_ROOT", orgs).env("HOME", place.path(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_line_goes_through_a_web_server_with_a_certificate_of_its_own() {
    let place = Place::new();
    authority(&place.path(""));
    let mut web = nginx(&place, "IP:127.0.0.1").started();
    founded(&place, &web.wss(), &[]);
    let _gateway = place.serve();
    release(&place);
    // Nobody could say whom such a download talks to.
    let before = place.freehold(&["invite", "create", "--name", "web-0"]);
    assert!(
        stdout(&before).contains("| freehold-node join") && stdout(&before).contains("--outside FILE"),
        "{}",
        stdout(&before)
    );

    let first = place.facts(&["trust", "show", "endpoint"]);
    let staged = add(&place);
    assert_eq!(staged["sha256_fingerprint"], first["sha256_fingerprint"], "no root is drawn");
    let shown = place.facts(&["trust", "show", "endpoint"]);
    assert_eq!((&shown["trust_bundle_version"], &shown["bundle_pem"]), (&2.into(), &first["bundle_pem"]), "{shown}");
    assert_eq!(shown["outside"][0]["hosts"], serde_json::json!(["127.0.0.1"]), "{shown}");

    let line = text(&place.invite(&["--name", "web-1"]), "line");
    assert!(line.contains(&format!(";_f 127.0.0.1:{}||{{", web.at.port)), "{line}");
    let told = paste(&place, "web-1", &line);
    succeeded(&told);
    assert_eq!(place.state_of("web-1").as_deref(), Some("member"));

    // The same authority, for somebody else's name: nothing is fetched, nothing runs.
    web.stop();
    certify(&place.path(""), &web, "DNS:other.example");
    web.start();
    let told = paste(&place, "web-2", &text(&place.invite(&["--name", "web-2"]), "line"));
    ended(&told, 3, "is not the org's gateway");
    assert!(!place.path("web-2-bin/freehold-node").exists());
    web.stop();

    // It goes on with a new root, until it is dropped.
    succeeded(&place.freehold(&["trust", "publish", "endpoint"]));
    let next = place.facts(&["trust", "show", "endpoint", "3"]);
    assert_ne!(next["sha256_fingerprint"], first["sha256_fingerprint"]);
    assert_eq!(next["outside"], shown["outside"]);
    succeeded(&place.freehold(&["trust", "rollback", "endpoint"]));
    succeeded(&place.freehold(&["trust", "publish", "endpoint", "--outside-none"]));
    assert_eq!(place.facts(&["trust", "show", "endpoint", "5"])["outside"], serde_json::json!([]));
}

#[test]
fn an_outside_root_makes_nobody_a_gateway() {
    let place = Place::founded(&["--node", "quay", "--svid-ttl", "20s"]);
    let outside = Credential::make();
    std::fs::write(place.path("ca.pem"), &outside.root_pem).unwrap();
    let gateway: Running = place.serve();
    place.joined("web-1");
    add(&place);
    succeeded(&place.node("web-1", &["sync"], ""));
    let pem = std::fs::read_to_string(place.scope("web-1").join("trust/endpoint.pem")).unwrap();
    assert!(!pem.contains(outside.root_pem.lines().nth(3).unwrap()), "other programs do not get it either");
    let code = place.code(&["--name", "web-2"]);
    let known = std::fs::read(place.scope("web-1").join("known.json")).unwrap();
    assert_eq!(gateway.stop(), Some(0));

    // In the gateway's place, with a certificate for its name that the outside root stands for: a download is served.
    let shelf = Shelf::serve_at(&outside, place.port);
    let digest = shelf.put(b"a file", Way::AsItIs);
    let mut curl = Command::new("curl");
    curl.args(["-fsS", "--cacert"]).arg(place.path("ca.pem")).arg(format!("{}/v1/file/{digest}", shelf.url()));
    let told = output(curl);
    succeeded(&told);
    assert_eq!(stdout(&told), "a file");
    let not_believed = |told: &Output| {
        assert!(!told.status.success(), "{}", stdout(told));
        assert!(stderr(told).contains("root"), "{}", stderr(told));
    };
    not_believed(&place.join("web-2", &code));
    not_believed(&place.node("web-1", &["sync"], ""));
    not_believed(&place.freehold(&["node", "list", "--gateway", &place.address()]));
    until("the SVID has expired", || {
        let mut look = Command::new("openssl");
        look.args(["x509", "-noout", "-checkend", "0", "-in"]).arg(place.scope("web-1").join("svid.pem"));
        !output(look).status.success()
    });
    not_believed(&place.node("web-1", &["sync"], ""));
    assert!(!place.scope("web-2").join("svid.pem").exists());
    assert_eq!(std::fs::read(place.scope("web-1").join("known.json")).unwrap(), known);
}

#[test]
fn what_is_no_outside_root_is_refused() {
    let place = Place::founded(&["--node", "quay"]);
    authority(&place.path(""));
    let _gateway = place.serve();
    let publish = |domain: &str, file: &str, host: &str| {
        place.freehold(&["trust", "publish", domain, "--outside", file, "--for", host])
    };
    ended(&place.freehold(&["trust", "publish", "endpoint", "--outside", "ca.pem"]), 2, "--for");
    refused(&publish("identity", "ca.pem", "127.0.0.1"), "for the `endpoint` domain alone");
    refused(&publish("endpoint", "ca.pem", "bank.example"), "no gateway has the name `bank.example`");
    refused(&publish("endpoint", "ca.key", "127.0.0.1"), "no certificate");
    for domain in ["endpoint", "identity"] {
        let own = stdout(&place.freehold(&["trust", "show", domain, "--pem"]));
        std::fs::write(place.path("own.pem"), own).unwrap();
        refused(&publish("endpoint", "own.pem", "127.0.0.1"), "is the org's own");
    }
    std::fs::write(place.path("x.pem"), made(false, 2099)).unwrap();
    refused(&publish("endpoint", "x.pem", "127.0.0.1"), "not an authority's");
    std::fs::write(place.path("x.pem"), made(true, 2021)).unwrap();
    refused(&publish("endpoint", "x.pem", "127.0.0.1"), "and not now");
    // Nothing of it was published; and a key beside the certificate stays at home.
    assert_eq!(place.facts(&["trust", "list"]).as_array().unwrap().len(), 2);
    let both = [std::fs::read(place.path("ca.key")).unwrap(), std::fs::read(place.path("ca.pem")).unwrap()].concat();
    std::fs::write(place.path("both.pem"), both).unwrap();
    succeeded(&publish("endpoint", "both.pem", "127.0.0.1"));
    let mut curl = Command::new("curl");
    curl.args(["-sSk"]).arg(format!("https://{}/v1/trust/endpoint", place.address()));
    let told = output(curl);
    succeeded(&told);
    let sent: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(sent.to_string().len() > 1000);
    let staged = place.facts(&["trust", "show", "endpoint", "2"]);
    assert!(!staged.to_string().contains("PRIVATE"), "{staged}");
}

/// A certificate by itself, good until a year begins.
fn made(is_ca: bool, until: i32) -> String {
    let mut params = rcgen::CertificateParams::default();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    params.is_ca =
        if is_ca { rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained) } else { rcgen::IsCa::ExplicitNoCa };
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}
