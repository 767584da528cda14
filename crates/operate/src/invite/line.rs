//! What is handed to whoever runs the machine that joins: one line to paste, or a file in a form that other tools read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use identity::bundle::Endpoint;
use identity::id::Digest;
use identity::principal::{Address, Host, Way};
use org::release::Release;
use zeroize::Zeroizing;

pub use self::start::Start;
use crate::release::{self, files};
use crate::session::{Result, Session, Unwise};
use crate::trust::versions::{endpoint_roots_pem, outside_in_use};

mod start;

/// Static bytes: nothing is ever written into them, so that their hash says everything.
pub(crate) const JOIN_SH: &[u8] = include_bytes!("../../assets/join.sh");
pub(crate) const JOIN_PS1: &[u8] = include_bytes!("../../assets/join.ps1");

/// No script of ours is as long, and no more is taken from whoever answers.
const SCRIPT_BYTES: usize = 100_000;
const _: () = assert!(JOIN_SH.len() < SCRIPT_BYTES && JOIN_PS1.len() < SCRIPT_BYTES);

/// Where cloud-init leaves the code and what runs with it: gone when the machine starts again.
const CLOUD_FOLDER: &str = "/run/freehold";

/// What a line says that got no script, and one that got another. No quote in them: they stand in quotes.
const NO_SCRIPT: &str = "nobody gave the script that this line names. Does a gateway run there, can this machine reach it, is \
                         the invite still good? Or something else answers there: compare the address with the operator";
const OTHER_SCRIPT: &str = "the script is not the one that this line names, and was not run. What answers there is no gateway \
                            of the org, or somebody is in the middle: compare the address with the operator. Or the line \
                            was not copied whole";

/// What a line downloads, by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kit {
    pub script: Digest,
    pub powershell: Digest,
    pub root: Digest,
    /// What whoever answers HTTPS for a gateway is believed by, in the place of the org's roots: for that name alone.
    pub outside: BTreeMap<Host, Digest>,
    pub release: Release,
}

impl Kit {
    /// Everything that a gateway must keep while the invite lives.
    pub fn files(&self) -> impl Iterator<Item = Digest> {
        let own = [self.script, self.powershell, self.root].into_iter();
        own.chain(self.outside.values().copied()).chain(self.release.files())
    }
}

/// What the line of an invite downloads, handed in where it is missing. Nothing if there is no release, or no
/// gateway that a plain download reaches.
pub async fn kit(session: &mut Session) -> Result<Option<Kit>> {
    let Some(release) = release::all(session).await?.current else {
        return Ok(None);
    };
    check_agents(session, &release).await?;
    let (root, outside) = (endpoint_roots_pem(session).await?, outside_files(session).await?);
    let list = release.list_text();
    let mut files = vec![JOIN_SH, JOIN_PS1, root.as_bytes(), list.as_bytes()];
    files.extend(outside.values().map(String::as_bytes));
    files::hand_in(session, &files, |_| {}).await?;
    let [script, powershell, root] = [JOIN_SH, JOIN_PS1, root.as_bytes()].map(Digest::of);
    let outside = outside.into_iter().map(|(host, pem)| (host, Digest::of(pem.as_bytes()))).collect();
    Ok(Some(Kit { script, powershell, root, outside, release }))
}

/// The outside roots of each name.
async fn outside_files(session: &mut Session) -> Result<BTreeMap<Host, String>> {
    let mut files: BTreeMap<Host, String> = BTreeMap::new();
    for outside in outside_in_use::<Endpoint>(session).await? {
        for host in outside.hosts {
            files.entry(host).or_default().push_str(&outside.pem);
        }
    }
    Ok(files)
}

/// A gateway that was restored has its ledger, and not its agents.
async fn check_agents(session: &mut Session, release: &Release) -> Result<()> {
    let agents = release.agents.iter().map(|agent| agent.sha256).collect();
    let missing = files::missing(session, agents).await?;
    match release.agents.iter().find(|agent| missing.iter().any(|gap| gap.digest == agent.sha256)) {
        Some(agent) => Err(Unwise::AgentLost { agent: Box::new(agent.clone()), number: release.number }.into()),
        None => Ok(()),
    }
}

/// Everything that stands in a line.
#[derive(Debug, Clone, Copy)]
pub struct JoinLine<'a> {
    pub code: &'a str,
    pub gateways: &'a [Address],
    /// Nothing: the agent must be there already.
    pub kit: Option<&'a Kit>,
    /// What the line fetches first.
    pub start: Option<&'a Start>,
    /// A name that the machine must take.
    pub name: Option<&'a str>,
}

/// Where files are fetched, and through which proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    at: String,
    proxy: Option<String>,
    root: Digest,
}

impl Source {
    /// As scripts read it.
    fn url(&self) -> String {
        match &self.proxy {
            Some(proxy) => format!("socks5://{proxy}/{}", self.at),
            None => format!("https://{}", self.at),
        }
    }
}

/// As the script reads them: a root is that of the gateways before it that have none.
fn words(sources: &[Source]) -> String {
    let mut words = String::new();
    for (at, source) in sources.iter().enumerate() {
        let _ = write!(words, " --gateway '{}'", source.url());
        if sources.get(at + 1).is_none_or(|next| next.root != source.root) {
            let _ = write!(words, " --root {}", source.root);
        }
    }
    words
}

/// One root if all have the same, else one for each.
fn roots(sources: &[Source]) -> String {
    let same = sources.windows(2).all(|pair| matches!(pair, [one, next] if one.root == next.root));
    let roots = sources.iter().map(|source| source.root.to_string());
    roots.take(if same { 1 } else { usize::MAX }).collect::<Vec<_>>().join(",")
}

fn urls(sources: &[Source]) -> String {
    sources.iter().map(Source::url).collect::<Vec<_>>().join(",")
}

/// Shell: brings `join.sh` from the first of these that gives what hashes to `$h`, and leaves `good` if one did, `whole` if
/// somebody gave all of something else. Whoever answers is asked: what it gives counts by its hash alone. Every byte
/// passes through `dd`, which ends after so many, also where nobody said how many will come.
fn fetch_script(sources: &[Source]) -> String {
    let urls = sources.iter().map(|source| format!("'{}'", source.url())).collect::<Vec<_>>().join(" ");
    format!(
        "for u in {urls}; do p='' g=$u; case $u in socks5://*) p=${{u#socks5://}} g=https://${{u#socks5://*/}} p=${{p%%/*}} ;; \
         esac; for f in curl wget; do {{ if [ $f = curl ]; then curl -qgfsSk -m 300 ${{p:+--socks5-hostname}} ${{p:+\"$p\"}} \
         \"$g/v1/file/$h\"; elif [ -z \"$p\" ]; then wget -qO- -T 60 --no-check-certificate \"$g/v1/file/$h\"; else false; fi && \
         echo 1 >whole; }} | {{ dd bs=1 count={SCRIPT_BYTES} of=join.sh; dd bs=1 count=1 of=more; }} 2>/dev/null || :; if \
         (sha256sum join.sh || shasum -a 256 join.sh || digest -a sha256 join.sh || openssl dgst -sha256 join.sh) 2>/dev/null \
         | grep -q $h; then echo 1 >good; break 2; fi; [ ! -s more ] || echo 1 >whole; done; done"
    )
}

/// Where a plain download gets to, and by which roots whoever answers there is believed. A gateway inside something else
/// counts only where a root of the carrier's own is known.
fn sources(kit: &Kit, gateways: &[Address]) -> Vec<Source> {
    let source = |address: &Address| {
        let (root, proxy) = match &address.way {
            Way::Direct => (Some(kit.root), None),
            Way::WebSocket { .. } => (kit.outside.get(&address.host).copied(), None),
            Way::Socks5 { proxy } => (Some(kit.root), Some(proxy.to_string())),
        };
        Some(Source { at: address.host_port().to_string(), proxy, root: root? })
    };
    gateways.iter().filter_map(source).collect()
}

/// Shell: fetches `join.sh`, compares its hash, runs it with `more` words; the code is on stdin.
fn body(kit: &Kit, sources: &[Source], more: &str) -> String {
    let steps = [
        "set -e\nd=$(mktemp -d)\ntrap 'cd /; rm -rf \"$d\"' 0\ncd \"$d\"".to_owned(),
        format!("h={}", kit.script),
        fetch_script(sources),
        format!(
            "[ -s good ] || [ ! -s whole ] || {{ echo 'freehold: {OTHER_SCRIPT}' >&2; exit 3; }}; [ -s good ] || {{ echo \
             'freehold: {NO_SCRIPT}' >&2; exit 1; }}"
        ),
        format!("sh join.sh{} --agents {}{more}", words(sources), kit.release.list),
    ];
    steps.join("\n")
}

impl JoinLine<'_> {
    /// Can it bring the agent along?
    pub fn installs(&self) -> bool {
        !self.sources().is_empty()
    }

    fn sources(&self) -> Vec<Source> {
        self.kit.map(|kit| sources(kit, self.gateways)).unwrap_or_default()
    }

    /// For a root shell of any kind.
    pub fn shell(&self) -> Zeroizing<String> {
        let sources = self.sources();
        match self.start.filter(|_| !sources.is_empty()) {
            Some(start) => start.line(&sources, &self.named()),
            None => Zeroizing::new(format!("echo {} | freehold-node join{}", self.code, self.named())),
        }
    }

    fn named(&self) -> String {
        self.name.map(|name| format!(" --name {name}")).unwrap_or_default()
    }

    /// With the code on stdin. Where nothing can be fetched, the agent is there.
    fn body(&self) -> String {
        match self.kit.map(|kit| (kit, sources(kit, self.gateways))) {
            Some((kit, sources)) if !sources.is_empty() => body(kit, &sources, &self.named()),
            Some(_) | None => format!("freehold-node join{}", self.named()),
        }
    }

    /// The same for an administrator's PowerShell.
    pub fn powershell(&self) -> Option<Zeroizing<String>> {
        let (kit, mut sources) = (self.kit?, self.sources());
        // What fetches there knows no such proxy.
        sources.retain(|source| source.proxy.is_none());
        let (first, gateways) = (sources.first()?.url(), urls(&sources));
        let name = self.name.map(|name| format!(" -Name '{name}'")).unwrap_or_default();
        let mut line = Zeroizing::new(String::new());
        // Writing into a string cannot fail. An older curl knows no bound but the time and the rate: 6 MB.
        let _ = write!(
            line,
            "'{}' | & {{ $h = '{}'; $f = Join-Path ([IO.Path]::GetTempPath()) ([Guid]::NewGuid().ToString() + '.ps1'); \
             try {{ curl.exe -qfsSk -m 60 --limit-rate 100k --max-filesize {SCRIPT_BYTES} -o $f ('{first}/v1/file/' + $h); if (-not (Test-Path $f)) {{ throw 'freehold: {NO_SCRIPT}' }}; \
             if ((Get-FileHash $f -Algorithm SHA256).Hash -ne $h) {{ throw 'freehold: {OTHER_SCRIPT}' }}; $input | powershell.exe -NoProfile \
             -ExecutionPolicy Bypass -File $f -Gateway '{gateways}' -Root '{}' -Agents {}{name} }} finally {{ Remove-Item $f \
             -ErrorAction SilentlyContinue }} }}",
            self.code,
            kit.powershell,
            roots(&sources),
            kit.release.list
        );
        Some(line)
    }

    /// User data for cloud-init: the code in a private file in memory, and what reads it.
    pub fn cloud_init(&self) -> Zeroizing<String> {
        let body = self.body();
        let script = format!("(\n{body}\n) < {CLOUD_FOLDER}/code && rm -f {CLOUD_FOLDER}/code");
        let mut indented = String::new();
        for line in script.lines() {
            let _ = writeln!(indented, "      {line}");
        }
        Zeroizing::new(format!(
            "#cloud-config\n\
             write_files:\n  \
               - path: {CLOUD_FOLDER}/code\n    \
                 owner: root:root\n    \
                 permissions: '0600'\n    \
                 content: |\n      {code}\n  \
               - path: {CLOUD_FOLDER}/join\n    \
                 owner: root:root\n    \
                 permissions: '0600'\n    \
                 content: |\n{indented}\
             runcmd:\n  \
               - [sh, {CLOUD_FOLDER}/join]\n",
            code = self.code
        ))
    }

    /// Lines `NAME=value`, as systemd's EnvironmentFile and containers read them.
    pub fn env(&self) -> Zeroizing<String> {
        let mut lines = Zeroizing::new(format!("FREEHOLD_INVITE={}\n", self.code));
        let sources = self.sources();
        if let Some(kit) = self.kit.filter(|_| !sources.is_empty()) {
            let _ = writeln!(lines, "FREEHOLD_GATEWAYS={}", urls(&sources));
            let _ = writeln!(lines, "FREEHOLD_SCRIPT_SHA256={}", kit.script);
            let _ = writeln!(lines, "FREEHOLD_ROOT_SHA256={}", roots(&sources));
            let _ = writeln!(lines, "FREEHOLD_AGENTS_SHA256={}", kit.release.list);
        }
        if let Some(name) = self.name {
            let _ = writeln!(lines, "FREEHOLD_NAME={name}");
        }
        lines
    }
}

#[cfg(test)]
mod tests;
