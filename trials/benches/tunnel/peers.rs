//! Other programs that do such work, as Debian has them: stunnel, haproxy, ssh. Those that are not there are named.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trials::place::Running;

use crate::load::{Kind, Load};
use crate::papers::Papers;
use crate::way::Way;

/// They find what they need here.
pub struct Ground<'a> {
    pub service: SocketAddr,
    pub papers: &'a Papers,
    pub folder: PathBuf,
}

type Peer = fn(&Ground<'_>) -> Result<Way, String>;

/// Each that runs here, and for each that does not, why.
pub fn all(ground: &Ground<'_>) -> (Vec<Way>, Vec<String>) {
    std::fs::create_dir_all(&ground.folder).unwrap();
    let (mut ways, mut missing) = (Vec::new(), Vec::new());
    let peers: [(&str, Peer); 5] = [
        ("stunnel", stunnel),
        ("haproxy", haproxy),
        ("ssh -L", ssh),
        ("wireguard-go", crate::namespaces::wireguard),
        ("nebula", crate::namespaces::nebula),
    ];
    for (name, start) in peers {
        match start(ground).and_then(|way| answers(&way).map(|()| way)) {
            Ok(way) => ways.push(way),
            Err(why) => missing.push(format!("{name}: not measured: {why}{}", ground.said(name))),
        }
    }
    (ways, missing)
}

/// Whether bytes go there and back, once it has had time to start.
fn answers(way: &Way) -> Result<(), String> {
    let load = Load { kind: Kind::RoundTrips, at: way.at, streams: 1, seconds: 0.05 };
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let told = way.caller("load", &load).output().map_err(|why| why.to_string())?;
        if told.status.success() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("nothing came back".to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn stunnel(ground: &Ground<'_>) -> Result<Way, String> {
    let version = version("stunnel4", "-version", "stunnel4")?;
    let (near, far) = (free(), free());
    let own = |end: &str, is_near: bool, accept, connect| {
        let text = format!(
            "foreground = yes\npid =\ndebug = err\n[way]\nclient = {}\naccept = {accept}\nconnect = {connect}\ncert = {}\nkey = {}\n\
             CAfile = {}\nverifyChain = yes\nsslVersion = TLSv1.3\nsessionResume = no\n\
             socket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n",
            if is_near { "yes" } else { "no" },
            ground.papers.file(&format!("{end}.pem")),
            ground.papers.file(&format!("{end}.key")),
            ground.papers.file("ca.pem"),
        );
        ground.start("stunnel4", &[], &format!("stunnel-{end}"), &text)
    };
    let alive = vec![own("near", true, near, far)?, own("far", false, far, ground.service)?];
    Ok(Way::new("stunnel", near, Vec::new()).of(alive).version(&format!("{version}; mTLS, X25519")))
}

fn haproxy(ground: &Ground<'_>) -> Result<Way, String> {
    let version = version("haproxy", "-v", "haproxy")?;
    let (near, far) = (free(), free());
    let own = |end: &str, bind: &str, server: &str| {
        let text = format!(
            "global\n  maxconn 8000\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1h\n  timeout server 1h\n\
             listen way\n  bind {bind}\n  server it {server}\n"
        );
        ground.start("haproxy", &["-db", "-f"], &format!("haproxy-{end}"), &text)
    };
    let file = |name: &str| ground.papers.file(name);
    let secret =
        |end: &str| format!("ssl crt {} ca-file {} verify required", file(&format!("{end}.both")), file("ca.pem"));
    let alive = vec![
        own("near", &near.to_string(), &format!("{far} {} no-ssl-reuse", secret("near")))?,
        own("far", &format!("{far} {} no-tls-tickets", secret("far")), &ground.service.to_string())?,
    ];
    Ok(Way::new("haproxy", near, Vec::new()).of(alive).version(&format!("{version}; mTLS, X25519")))
}

fn ssh(ground: &Ground<'_>) -> Result<Way, String> {
    let version = version("ssh", "-V", "openssh-client")?;
    let server = find("sshd").ok_or("not installed: apt-get install openssh-server")?;
    let (near, far) = (free(), free());
    let file = |name: &str| ground.folder.join(name).display().to_string();
    for key in ["host", "caller"] {
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)])?;
    }
    let mut text =
        format!("ListenAddress {far}\nHostKey {}\nAuthorizedKeysFile {}\n", file("host"), file("caller.pub"));
    text.push_str(
        "StrictModes no\nUsePAM no\nPidFile none\nAllowTcpForwarding yes\nPermitRootLogin prohibit-password\n",
    );
    let _ = writeln!(text, "LogLevel ERROR");
    // It insists on the folder, also if it needs nothing there.
    let _ = std::fs::create_dir_all("/run/sshd");
    let daemon = ground.start(&server.display().to_string(), &["-D", "-e", "-f"], "sshd", &text)?;
    let user = run("id", &["-un"])?;
    let forward = format!("{near}:{}", ground.service);
    let port = far.port().to_string();
    let mut command = Command::new("ssh");
    command.args(["-N", "-L", &forward, "-p", &port, "-i", &file("caller"), "-o", "StrictHostKeyChecking=no"]);
    command.args(["-o", &format!("UserKnownHostsFile={}", file("known")), "-o", "ConnectionAttempts=20", "-F", "none"]);
    command.arg(format!("{}@127.0.0.1", user.trim()));
    let client = ground.spawn(command, "ssh")?;
    Ok(Way::new("ssh -L", near, Vec::new()).of(vec![client, daemon]).version(&version))
}

impl Ground<'_> {
    /// A program whose last argument is a file with this text.
    pub fn start(&self, program: &str, words: &[&str], name: &str, text: &str) -> Result<Running, String> {
        let path = self.folder.join(format!("{name}.conf"));
        std::fs::write(&path, text).map_err(|why| why.to_string())?;
        let mut command = Command::new(program);
        command.args(words).arg(path);
        self.spawn(command, name)
    }

    /// The last words of a program that did not come up.
    fn said(&self, name: &str) -> String {
        let word = name.split([' ', '-']).next().unwrap_or_default();
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| {
            let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            file.starts_with(word) && path.extension().is_some_and(|kind| kind == "log")
        });
        let texts = logs.filter_map(|path| std::fs::read_to_string(path).ok());
        texts.filter_map(|text| Some(format!("; it says: {}", text.lines().last()?))).collect()
    }

    /// What it says is in a file beside.
    pub fn spawn(&self, mut command: Command, name: &str) -> Result<Running, String> {
        let log = File::create(self.folder.join(format!("{name}.log"))).map_err(|why| why.to_string())?;
        let also = log.try_clone().map_err(|why| why.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(also).spawn();
        child.map(Running).map_err(|why| format!("{command:?}: {why}"))
    }
}

/// What it says of itself, if it is there.
pub fn version(program: &str, word: &str, package: &str) -> Result<String, String> {
    find(program).ok_or_else(|| format!("not installed: apt-get install {package}"))?;
    let told = Command::new(program).arg(word).output().map_err(|why| why.to_string())?;
    let text = [told.stdout, told.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.chars().any(|letter| letter.is_ascii_digit()));
    Ok(line.unwrap_or(program).trim().chars().take(70).collect())
}

pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([Path::new("/usr/sbin").to_owned()]);
    folders.map(|folder| folder.join(program)).find(|path| path.exists())
}

pub fn run(program: &str, words: &[&str]) -> Result<String, String> {
    let told = Command::new(program).args(words).stdin(Stdio::null()).output();
    let told = told.map_err(|why| format!("`{program}`: {why}"))?;
    if told.status.success() {
        return Ok(trials::place::stdout(&told));
    }
    Err(format!("`{program} {}`: {}", words.join(" "), trials::place::stderr(&told).trim()))
}

/// Free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
