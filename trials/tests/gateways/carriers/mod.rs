//! Carriers: real web servers and proxies between nodes and their gateway. None of them is trusted with anything.

mod web;
mod socks;
mod proxied;
mod hostile;
mod outside;

use std::net::TcpStream;
use std::process::{Command, Stdio};

use trials::place::{Place, Running, openssl, output, stderr, succeeded, until};

/// Where a named proxy calls the gateway from.
const PROXY: &str = "127.0.0.9";

/// An org whose gateway is known under this address alone.
fn founded(place: &Place, address: &str, more: &[&str]) {
    let words = ["found", "harbor", "--unprotected", "--node", "quay", "--advertise", address];
    succeeded(&place.freehold(&[&words, more].concat()));
}

/// Lines of the gateway's `serve.toml`.
fn set(place: &Place, lines: &str) {
    std::fs::write(place.org().join("gateway/serve.toml"), lines).unwrap();
}

fn serial(place: &Place, node: &str) -> String {
    openssl(&place.scope(node), &["x509", "-in", "svid.pem", "-noout", "-serial"])
}

/// A program that others' bytes go through, in a folder and on a port of its own.
struct Carrier {
    at: Place,
    words: Vec<String>,
    running: Option<Running>,
}

impl Carrier {
    fn new(words: &[&str]) -> Self {
        let at = Place::new();
        let (folder, port) = (at.path(""), at.port.to_string());
        let words = words.iter().map(|word| word.replace("@DIR@", &folder.to_string_lossy()).replace("@PORT@", &port));
        Self { words: words.collect(), at, running: None }
    }

    /// nginx that ends TLS with a certificate of its own making, and hands `/v1/carry` on to a gateway.
    fn nginx(gateway: u16, more: &str) -> Self {
        let carrier = Self::new(&["nginx", "-p", "@DIR@", "-c", "nginx.conf", "-e", "error.log"]);
        let folder = carrier.at.path("");
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "outer.key"];
        let made = [&["req", "-x509"], &key[..], &["-out", "outer.pem", "-days", "2", "-subj", "/CN=carrier"]].concat();
        openssl(&folder, &made);
        let config = NGINX.replace("@PORT@", &carrier.at.port.to_string()).replace("@GATEWAY@", &gateway.to_string());
        std::fs::write(folder.join("nginx.conf"), config.replace("@MORE@", more)).unwrap();
        carrier
    }

    /// HAProxy that passes TCP on, with a word of whose it is.
    fn haproxy(gateway: u16, server: &str) -> Self {
        let carrier = Self::new(&["haproxy", "-db", "-f", "@DIR@/haproxy.cfg"]);
        let config = HAPROXY.replace("@PORT@", &carrier.at.port.to_string()).replace("@GATEWAY@", &gateway.to_string());
        std::fs::write(carrier.at.path("haproxy.cfg"), config.replace("@SERVER@", server)).unwrap();
        carrier
    }

    fn started(mut self) -> Self {
        self.start();
        self
    }

    /// Starts it, and waits until it takes connections.
    fn start(&mut self) {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        let child = child.unwrap_or_else(|why| panic!("no {}: {why} (scripts/test installs it)", self.words[0]));
        let mut running = Running(child);
        until("the carrier listens", || {
            if let Ok(Some(status)) = running.0.try_wait() {
                let mut again = Command::new(&self.words[0]);
                again.args(&self.words[1..]);
                panic!("{} ended with {status}: {}", self.words[0], stderr(&output(again)));
            }
            TcpStream::connect(("127.0.0.1", self.at.port)).is_ok()
        });
        self.running = Some(running);
    }

    fn stop(&mut self) {
        self.running.take().map(Running::stop);
        until("the carrier is gone", || TcpStream::connect(("127.0.0.1", self.at.port)).is_err());
    }

    fn wss(&self) -> String {
        format!("wss://127.0.0.1:{}", self.at.port)
    }
}

const NGINX: &str = r"
user root;
daemon off;
pid nginx.pid;
worker_processes 1;
events { worker_connections 256; }
http {
    log_format carried '$status $request_time';
    access_log access.log carried;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {
        listen 127.0.0.1:@PORT@ ssl;
        ssl_certificate outer.pem;
        ssl_certificate_key outer.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        location = /v1/carry {
            proxy_pass https://127.0.0.1:@GATEWAY@;
            proxy_ssl_protocols TLSv1.3;
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            @MORE@
        }
    }
}
";

const HAPROXY: &str = "
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
listen carrier
    bind 127.0.0.1:@PORT@
    server gateway 127.0.0.1:@GATEWAY@ @SERVER@
";
