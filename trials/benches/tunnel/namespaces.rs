//! Programs that carry whole packets, each end in a network namespace of its own: wireguard-go and nebula. They carry between
//! machines, not between programs: the load and a service of their own are inside, at either end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use trials::place::Running;

use crate::peers::{Ground, run, version};
use crate::way::{Way, in_namespace, listening};

/// Two namespaces with a cable between; gone when dropped.
#[derive(Debug)]
pub struct Cable {
    names: [String; 2],
}

/// Where the ends of the cable are, and where the ends of what goes through it.
const OUTSIDE: [&str; 2] = ["10.98.0.1", "10.98.0.2"];
const INSIDE: [&str; 2] = ["10.99.0.1", "10.99.0.2"];

impl Cable {
    fn lay(word: &str) -> Result<Self, String> {
        let names = ["a", "b"].map(|end| format!("fh-{word}-{end}-{}", std::process::id()));
        let links = ["a", "b"].map(|end| format!("{word}{end}{}", std::process::id() % 100_000));
        let [near, far] = &names;
        ip(&["netns", "add", near])?;
        let cable = Self { names: names.clone() };
        ip(&["netns", "add", far])?;
        let [one, other] = &links;
        ip(&["link", "add", one, "netns", near, "type", "veth", "peer", "name", other, "netns", far])?;
        for ((name, link), address) in names.iter().zip(&links).zip(OUTSIDE) {
            ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", link])?;
            ip(&["-n", name, "link", "set", link, "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(cable)
    }

    fn command(&self, end: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec"]).arg(self.name(end)).arg(program);
        command
    }

    fn name(&self, end: usize) -> &str {
        self.names.get(end).map_or("", String::as_str)
    }

    /// A service at the far end, and the way to it.
    fn way(self, name: &str, mut alive: Vec<Running>) -> Way {
        let at: SocketAddr = format!("{}:0", INSIDE[1]).parse().unwrap();
        let (service, at) = listening(in_namespace(Some(self.name(1)), "service", &at));
        let namespace = Some(self.name(0).to_owned());
        let carriers: Vec<u32> = alive.iter().map(|process| process.0.id()).collect();
        alive.push(service);
        Way { namespace, alive, cable: Some(self), ..Way::new(name, at, carriers) }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

fn ip(words: &[&str]) -> Result<String, String> {
    run("ip", words)
}

pub fn wireguard(ground: &Ground<'_>) -> Result<Way, String> {
    let version = version("wireguard-go", "--version", "wireguard-go")?;
    run("wg", &["--version"]).map_err(|_| "not installed: apt-get install wireguard-tools")?;
    let cable = Cable::lay("wg")?;
    let secrets = [run("wg", &["genkey"])?, run("wg", &["genkey"])?];
    // Its socket has the name of its link, whatever the namespace.
    let links = ["wgfh0", "wgfh1"];
    let mut alive = Vec::new();
    for (end, secret) in secrets.iter().enumerate() {
        let mut command = cable.command(end, "wireguard-go");
        command.args(["-f", links[end]]).env("WG_PROCESS_FOREGROUND", "1");
        alive.push(ground.spawn(command, &format!("wireguard-{end}"))?);
        let file = ground.folder.join(format!("wireguard-{end}.key"));
        std::fs::write(&file, secret).map_err(|why| why.to_string())?;
    }
    for end in 0..secrets.len() {
        let (other, name, link) = (1 - end, cable.name(end), links[end]);
        let key = public(&secrets[other])?;
        let file = ground.folder.join(format!("wireguard-{end}.key")).display().to_string();
        let (allowed, endpoint) = (format!("{}/32", INSIDE[other]), format!("{}:51820", OUTSIDE[other]));
        wait(|| ip(&["-n", name, "link", "show", link]))?;
        let words = ["netns", "exec", name, "wg", "set", link, "listen-port", "51820", "private-key", &file];
        let peer = ["peer", &key, "allowed-ips", &allowed, "endpoint", &endpoint];
        wait(|| ip(&[&words[..], &peer[..]].concat()))?;
        ip(&["-n", name, "addr", "add", &format!("{}/24", INSIDE[end]), "dev", link])?;
        ip(&["-n", name, "link", "set", link, "mtu", "1420", "up"])?;
    }
    Ok(cable.way("wireguard-go", alive).version(&format!("{version}; both ends in namespaces, MTU 1420")))
}

fn public(secret: &str) -> Result<String, String> {
    let child = Command::new("wg").arg("pubkey").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|why| why.to_string())?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(secret.as_bytes()).map_err(|why| why.to_string())?;
    }
    let told = child.wait_with_output().map_err(|why| why.to_string())?;
    Ok(trials::place::stdout(&told).trim().to_owned())
}

pub fn nebula(ground: &Ground<'_>) -> Result<Way, String> {
    let version = version("nebula", "-version", "nebula")?;
    let file = |name: &str| ground.folder.join(name).display().to_string();
    let (ca, ca_key) = (file("nebula-ca.crt"), file("nebula-ca.key"));
    run("nebula-cert", &["ca", "-name", "bench", "-out-crt", &ca, "-out-key", &ca_key])?;
    let cable = Cable::lay("nb")?;
    let mut alive = Vec::new();
    for (end, inside) in INSIDE.iter().enumerate() {
        let other = 1 - end;
        let (certificate, key) = (file(&format!("nebula-{end}.crt")), file(&format!("nebula-{end}.key")));
        let (name, address) = (format!("end-{end}"), format!("{inside}/24"));
        let words = ["sign", "-name", &name, "-ip", &address, "-ca-crt", &ca, "-ca-key", &ca_key];
        run("nebula-cert", &[&words[..], &["-out-crt", &certificate, "-out-key", &key]].concat())?;
        let text = format!(
            "pki: {{ca: {ca}, cert: {certificate}, key: {key}}}\n\
             static_host_map: {{\"{}\": [\"{}:4242\"]}}\n\
             lighthouse: {{am_lighthouse: false, interval: 60, hosts: []}}\n\
             listen: {{host: 0.0.0.0, port: 4242}}\n\
             tun: {{dev: nbfh, mtu: 1300}}\n\
             logging: {{level: warning}}\n\
             firewall: {{outbound: [{{port: any, proto: any, host: any}}], inbound: [{{port: any, proto: any, host: any}}]}}\n",
            INSIDE[other], OUTSIDE[other]
        );
        let path = ground.folder.join(format!("nebula-{end}.yml"));
        std::fs::write(&path, text).map_err(|why| why.to_string())?;
        let mut command = cable.command(end, "nebula");
        command.arg("-config").arg(&path);
        alive.push(ground.spawn(command, &format!("nebula-{end}"))?);
        let (name, address) = (cable.name(end), format!("inet {inside}"));
        wait(|| {
            ip(&["-n", name, "addr", "show", "nbfh"])
                .and_then(|told| told.contains(&address).then_some(told).ok_or_else(|| "no address".to_owned()))
        })?;
    }
    Ok(cable.way("nebula", alive).version(&format!("{version}; both ends in namespaces, MTU 1300")))
}

/// Until a program that was just started has done its part.
fn wait(mut so: impl FnMut() -> Result<String, String>) -> Result<String, String> {
    let mut told = so();
    for _ in 0..100 {
        if told.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        told = so();
    }
    told
}
