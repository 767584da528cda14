//! What is handed to whoever runs the machine that joins: one line to paste, or a file in a form that other tools read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use identity::bundle::Endpoint;
use identity::id::Digest;
use identity::principal::{Address, Host, Way};
use org::release::Release;
use zeroize::Zeroizing;

use crate::release::{self, files};
use crate::session::{Result, Session, Unwise};
use crate::trust::versions::{endpoint_roots_pem, outside_in_use};

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
    /// A name that the machine must take.
    pub name: Option<&'a str>,
}

/// Where files are fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    url: String,
    root: Digest,
}

/// As the script reads them: a root is that of the gateways before it that have none.
fn words(sources: &[Source]) -> String {
    let mut words = String::new();
    for (at, Source { url, root }) in sources.iter().enumerate() {
        let _ = write!(words, " --gateway {url}");
        if sources.get(at + 1).is_none_or(|next| next.root != *root) {
            let _ = write!(words, " --root {root}");
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

fn urls(sources: &[Source]) -> Vec<&str> {
    sources.iter().map(|source| source.url.as_str()).collect()
}

/// Shell: brings `join.sh` from the first of these that gives what hashes to `$h`, and leaves `good` if one did, `whole` if
/// somebody gave all of something else. Whoever answers is asked: what it gives counts by its hash alone. Every byte
/// passes through `dd`, which ends after so many, also where nobody said how many will come.
fn fetch_script(urls: &str) -> String {
    format!(
        "for u in {urls}; do for f in curl wget; do {{ if [ $f = curl ]; then curl -qfsSk -m 300 \"$u/v1/file/$h\"; else wget \
         -qO- -T 60 --no-check-certificate \"$u/v1/file/$h\"; fi && echo 1 >whole; }} | {{ dd bs=1 count={SCRIPT_BYTES} \
         of=join.sh; dd bs=1 count=1 of=more; }} 2>/dev/null || :; if (sha256sum join.sh || shasum -a 256 join.sh || digest \
         -a sha256 join.sh || openssl dgst -sha256 join.sh) 2>/dev/null | grep -q $h; then echo 1 >good; break 2; fi; \
         [ ! -s more ] || echo 1 >whole; done; done"
    )
}

impl JoinLine<'_> {
    /// Can it bring the agent along?
    pub fn installs(&self) -> bool {
        !self.sources().is_empty()
    }

    /// Where a plain download gets to, and by which roots whoever answers there is believed. A gateway inside something
    /// else counts only where a root of the carrier's own is known.
    fn sources(&self) -> Vec<Source> {
        let Some(kit) = self.kit else { return Vec::new() };
        let source = |address: &Address| {
            let root = match address.way {
                Way::Direct => Some(kit.root),
                Way::WebSocket { .. } => kit.outside.get(&address.host).copied(),
                Way::Socks5 { .. } => None,
            };
            Some(Source { url: format!("https://{}", address.host_port()), root: root? })
        };
        self.gateways.iter().filter_map(source).collect()
    }

    /// For a root shell of any kind. The code is a word of `echo`, which every shell has built in, so that no list of
    /// processes shows it.
    pub fn shell(&self) -> Zeroizing<String> {
        let (open, close) = if self.installs() { ("(", ")") } else { ("", "") };
        Zeroizing::new(format!("echo {} | {open}{}{close}", self.code, self.body("; ")))
    }

    /// Fetches the script, compares its hash, runs it; the code is on stdin. Where nothing can be fetched, the agent is there.
    fn body(&self, and: &str) -> String {
        let name = self.name.map(|name| format!(" --name {name}")).unwrap_or_default();
        let sources = self.sources();
        let Some(kit) = self.kit.filter(|_| !sources.is_empty()) else { return format!("freehold-node join{name}") };
        let mut steps: Vec<String> =
            ["set -e", "d=$(mktemp -d)", "trap 'cd /; rm -rf \"$d\"' 0", "cd \"$d\""].map(str::to_owned).into();
        steps.push(format!("h={}", kit.script));
        steps.push(fetch_script(&urls(&sources).join(" ")));
        steps.push(format!(
            "[ -s good ] || [ ! -s whole ] || {{ echo 'freehold: {OTHER_SCRIPT}' >&2; exit 3; }}; [ -s good ] || {{ echo \
             'freehold: {NO_SCRIPT}' >&2; exit 1; }}"
        ));
        steps.push(format!("sh join.sh{} --agents {}{name}", words(&sources), kit.release.list));
        steps.join(and)
    }

    /// The same for an administrator's PowerShell.
    pub fn powershell(&self) -> Option<Zeroizing<String>> {
        let (kit, sources) = (self.kit?, self.sources());
        let (first, gateways) = (&sources.first()?.url, urls(&sources).join(","));
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
        let body = self.body("\n");
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
            let _ = writeln!(lines, "FREEHOLD_GATEWAYS={}", urls(&sources).join(","));
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
