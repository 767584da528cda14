//! A client in Python with mutual TLS, as the guide writes it, and a server in Python that asks who calls.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use trials::place::{Running, ended, output, stdout, succeeded, until};
use trials::port::Claim;

use super::{Home, block};

/// Says to each caller who it is, by the URI; reads its files anew for each.
const SERVER: &str = r#"
import os, socket, ssl, sys
programs, me, port = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", int(port)))
print("listens", flush=True)
while True:
    stream, _ = listener.accept()
    files = os.path.realpath(os.path.join(programs, me, "current"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(files, "svid.pem"), os.path.join(files, "svid.key"))
    context.load_verify_locations(os.path.join(files, "roots.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        with context.wrap_socket(stream, server_side=True) as tls:
            caller = dict(tls.getpeercert()["subjectAltName"])["URI"]
            tls.sendall(f"hello {caller}\n".encode())
    except OSError as why:
        print(why, file=sys.stderr, flush=True)
"#;

const CALL: &str = r#"
import sys
programs, me, service, host, port = sys.argv[1:]
with connect(programs, me, service, host, ("127.0.0.1", int(port))) as stream:
    print(stream.recv(1000).decode(), end="")
    print(stream.getpeercert()["serialNumber"])
"#;

fn serve(home: &Home, me: &str, port: u16) -> Running {
    let mut command = Command::new("python3");
    command.args(["-c", SERVER]).arg(home.programs()).args([me, &port.to_string()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "listens\n");
    Running(child)
}

fn call(programs: &Path, words: [&str; 4]) -> Output {
    let mut command = Command::new("python3");
    command.args(["-c", &format!("{}{CALL}", block("python"))]).arg(programs).args(words).stdin(Stdio::null());
    output(command)
}

#[test]
fn a_client_in_python_proves_who_it_is_and_sees_who_answers() {
    let mut home = Home::of("30s");
    let (wiki_port, boat_port) = (Claim::new(), Claim::new());
    let services = "services:
  wiki: {at: web-1, addr: '127.0.0.1:1', groups: pages, svid: {dns: wiki.example.org}}
  boat: {at: web-1, addr: '127.0.0.1:2', groups: pages, svid: {dns: boat.example.org}}";
    home.publish(services, "    svid: {}");
    for whose in ["service-wiki", "service-boat", "user-ann"] {
        home.has(whose);
    }
    let _wiki = serve(&home, "service-wiki", wiki_port.port);
    let _boat = serve(&home, "service-boat", boat_port.port);
    let (wiki, boat) = (wiki_port.port.to_string(), boat_port.port.to_string());
    let uri = |name: &str| format!("spiffe://harbor/service/{name}");
    let ask = |me: &str, service: &str, host: &str, port: &str| call(&home.programs(), [me, &uri(service), host, port]);
    let hello = |told: &Output| {
        succeeded(told);
        let text = stdout(told);
        let (hello, serial) = text.trim().split_once('\n').unwrap();
        (hello.to_owned(), serial.to_owned())
    };
    let (said, first) = hello(&ask("user-ann", "wiki", "wiki.example.org", &wiki));
    assert_eq!(said, "hello spiffe://harbor/user/ann");
    assert_eq!(hello(&ask("service-boat", "wiki", "wiki.example.org", &wiki)).0, "hello spiffe://harbor/service/boat");
    // Another service answers there: by its name, and by who it is.
    ended(&ask("user-ann", "wiki", "wiki.example.org", &boat), 1, "Hostname mismatch");
    ended(&ask("user-ann", "wiki", "boat.example.org", &boat), 1, "this is not spiffe://harbor/service/wiki");
    // Who proves nothing hears nothing.
    let mut nobody = Command::new("curl");
    nobody.args(["-sS", "--resolve", &format!("wiki.example.org:{wiki}:127.0.0.1"), "--cacert"]);
    nobody.arg(home.folder("user-ann").join("roots.pem")).arg(format!("https://wiki.example.org:{wiki}/"));
    assert!(!output(nobody).status.success());
    // Renewed meanwhile, without anybody being told.
    until("the server shows another certificate", || {
        hello(&ask("user-ann", "wiki", "wiki.example.org", &wiki)).1 != first
    });
}
