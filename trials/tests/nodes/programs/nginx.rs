//! nginx: it shows its SVID, lets in ann alone, and a renewal reaches the next connection.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use trials::place::{Running, output, stderr, stdout, until};
use trials::port::Claim;

use super::{Home, serial_shown, service};

const AROUND: &str = "
daemon off;
user www-data;
pid nginx.pid;
worker_processes 1;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
@SERVER@
}
";

fn start(folder: &Path, port: u16) -> Running {
    let words = ["-p", folder.to_str().unwrap(), "-c", "nginx.conf", "-e", "error.log"];
    let mut command = Command::new("/usr/sbin/nginx");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().unwrap_or_else(|why| panic!("no nginx: {why} (scripts/test installs it)")));
    until("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

/// A page, by curl, with the SVID of somebody or with none: status and body.
fn page(home: &Home, port: u16, whose: Option<&str>) -> (String, String) {
    let roots = home.folder("user-ann").join("roots.pem");
    let mut command = Command::new("curl");
    command.args(["-sS", "--tlsv1.3", "-w", "\n%{http_code}", "--cacert"]).arg(roots);
    command.args(["--resolve", &format!("wiki.example.org:{port}:127.0.0.1")]);
    if let Some(whose) = whose {
        command.arg("--cert").arg(home.folder(whose).join("svid.pem"));
        command.arg("--key").arg(home.folder(whose).join("svid.key"));
    }
    command.arg(format!("https://wiki.example.org:{port}/"));
    let told = output(command);
    let text = stdout(&told);
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.to_owned(), if body.is_empty() { stderr(&told) } else { body.to_owned() })
}

#[test]
fn nginx_shows_its_svid_lets_in_whom_it_should_and_takes_a_renewed_one() {
    let mut home = Home::of("30s");
    let port = Claim::new();
    let at = home.place().path("nginx");
    std::fs::create_dir(&at).unwrap();
    let server = home.shown("nginx").replace("8443", &port.port.to_string());
    std::fs::write(at.join("nginx.conf"), AROUND.replace("@SERVER@", &server)).unwrap();
    let reload = format!("[/usr/sbin/nginx, -p, {0}, -c, nginx.conf, -e, error.log, -s, reload]", at.display());
    let wiki = service("wiki").replace("8443", &port.port.to_string());
    let wiki = wiki.replace("[/usr/sbin/nginx, -s, reload]", &reload);
    let boat = "  boat:\n    at: web-1\n    addr: \"127.0.0.1:9\"\n    groups: pages\n    svid: {}";
    home.publish(&format!("{wiki}{boat}"), "    svid: {}");
    for whose in ["service-wiki", "service-boat", "user-ann"] {
        home.has(whose);
    }
    // It does not run yet: that is told, and its SVID lies there all the same.
    let wiki = "spiffe://harbor/service/wiki";
    until("it is told that nginx was not", || home.told(wiki)["untold"] == true);
    let status = stdout(&home.place().node("web-1", &["status"], ""));
    assert!(status.contains("it was not told of its new SVID: `/usr/sbin/nginx` ended with"), "{status}");
    let doctor = stdout(&home.place().node("web-1", &["doctor"], ""));
    assert!(doctor.contains("mend that, and run it again: freehold-node sync --now"), "{doctor}");
    until("the operators hear of it", || {
        let shown = stdout(&home.place().freehold(&["node", "show", "web-1"]));
        shown.contains("program    of spiffe://harbor/service/wiki, since")
    });

    let _nginx = start(&at, port.port);
    assert_eq!(page(&home, port.port, Some("user-ann")), ("200".to_owned(), "hello CN=ann\n".to_owned()));
    assert_eq!(page(&home, port.port, Some("service-boat")).0, "403", "a member, and not ann");
    assert_eq!(page(&home, port.port, None).0, "400", "nobody");
    // A new connection shows the new certificate, without a restart.
    let ann = home.folder("user-ann");
    let shown = || serial_shown(ann.to_str().unwrap(), port.port, &[]);
    let first = shown().unwrap();
    until("nginx shows another certificate", || shown().is_some_and(|serial| serial != first));
    until("all is well", || home.told(wiki)["problem"].is_null());
    assert_eq!(page(&home, port.port, Some("user-ann")).0, "200");
    let well = || !stdout(&home.place().freehold(&["node", "show", "web-1"])).contains("program    of");
    until("the operators hear that, too", well);
}
