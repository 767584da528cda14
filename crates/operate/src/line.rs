//! What is handed to whoever runs the machine that joins: one line to paste, or a file in a form that other tools read.

use std::fmt::Write as _;

use identity::id::Digest;
use identity::principal::Address;
use org::release::Release;
use zeroize::Zeroizing;

use crate::desk::Desk;
use crate::session::{OperateError, Session};

/// Static bytes: nothing is ever written into them, so that their hash says everything.
pub const JOIN_SH: &[u8] = include_bytes!("../assets/join.sh");
pub const JOIN_PS1: &[u8] = include_bytes!("../assets/join.ps1");

/// Where cloud-init leaves the code and what runs with it: gone when the machine starts again.
const CLOUD_FOLDER: &str = "/run/freehold";

/// What a line downloads, by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kit {
    pub script: Digest,
    pub powershell: Digest,
    pub root: Digest,
    pub release: Release,
}

impl Kit {
    /// Everything that a gateway must keep while the invite lives.
    pub fn files(&self) -> impl Iterator<Item = Digest> {
        [self.script, self.powershell, self.root].into_iter().chain(self.release.files())
    }
}

impl<D: Desk> Session<D> {
    /// What the line of an invite downloads, handed in where it is missing. Nothing if there is no release, or no
    /// gateway that a plain download reaches.
    pub async fn line_kit(&mut self) -> Result<Option<Kit>, OperateError> {
        let Some(release) = self.releases().await?.current else {
            return Ok(None);
        };
        self.check_agents(&release).await?;
        let root = self.endpoint_roots_pem().await?;
        let list = release.list_text();
        self.hand_in_files(&[JOIN_SH, JOIN_PS1, root.as_bytes(), list.as_bytes()], |_| {}).await?;
        let [script, powershell, root] = [JOIN_SH, JOIN_PS1, root.as_bytes()].map(Digest::of);
        Ok(Some(Kit { script, powershell, root, release }))
    }
}

impl<D: Desk> Session<D> {
    /// A gateway that was restored has its ledger, and not its agents.
    async fn check_agents(&mut self, release: &Release) -> Result<(), OperateError> {
        let missing = self.missing_files(release.agents.iter().map(|agent| agent.sha256).collect()).await?;
        let lost = release.agents.iter().find(|agent| missing.iter().any(|gap| gap.digest == agent.sha256));
        lost.map_or(Ok(()), |agent| {
            let (os, arch, number) = (&agent.os, &agent.arch, release.number);
            Err(OperateError::Unwise(format!(
                "the gateway does not have the agent for {os} {arch} of release {number}: add it again, freehold release \
                 add FILE"
            )))
        })
    }
}

/// Everything that stands in a line.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    pub code: &'a str,
    pub gateways: &'a [Address],
    /// Nothing: the agent must be there already.
    pub kit: Option<&'a Kit>,
    /// A name that the machine must take.
    pub name: Option<&'a str>,
}

impl Line<'_> {
    /// Can it bring the agent along?
    pub fn installs(&self) -> bool {
        self.kit.is_some() && !self.urls().is_empty()
    }

    /// Those that a plain download reaches; the others carry TLS inside something else.
    fn urls(&self) -> Vec<String> {
        let plain = self.gateways.iter().map(ToString::to_string).filter(|address| !address.contains("://"));
        plain.map(|address| format!("https://{address}")).collect()
    }

    /// For a root shell of any kind. The code is a word of `echo`, which every shell has built in, so that no list of
    /// processes shows it.
    pub fn shell(&self) -> Zeroizing<String> {
        let name = self.name.map(|name| format!(" --name {name}")).unwrap_or_default();
        let body = self.body("; ").unwrap_or_else(|| format!("freehold-node join{name}"));
        let (open, close) = if self.installs() { ("(", ")") } else { ("", "") };
        Zeroizing::new(format!("echo {} | {open}{body}{close}", self.code))
    }

    /// Fetches the script, compares its hash, runs it; the code is on stdin.
    fn body(&self, and: &str) -> Option<String> {
        let (kit, urls) = (self.kit?, self.urls());
        let fetch = "curl -qfsSk -m 300 --max-filesize 1000000 -o join.sh \"$u/v1/file/$h\" || wget -qO join.sh --no-check-certificate \"$u/v1/file/$h\"";
        let mut steps: Vec<String> =
            ["set -e", "d=$(mktemp -d)", "trap 'cd /; rm -rf \"$d\"' 0", "cd \"$d\""].map(str::to_owned).into();
        steps.push(format!("h={}", kit.script));
        match urls.as_slice() {
            [] => return None,
            [url] => steps.extend([format!("u={url}"), fetch.to_owned()]),
            several => steps.push(format!("for u in {}; do {{ {fetch}; }} && break; done", several.join(" "))),
        }
        steps.push(
            "(sha256sum join.sh || shasum -a 256 join.sh || digest -a sha256 join.sh || openssl dgst -sha256 join.sh) \
             2>/dev/null | grep -q $h || { echo 'freehold: the script is not the one that this line names' >&2; exit 3; }"
                .to_owned(),
        );
        let gateways = urls.iter().map(|url| format!(" --gateway {url}")).collect::<Vec<_>>().concat();
        let name = self.name.map(|name| format!(" --name {name}")).unwrap_or_default();
        steps.push(format!("sh join.sh{gateways} --root {} --agents {}{name}", kit.root, kit.release.list));
        Some(steps.join(and))
    }

    /// The same for an administrator's PowerShell.
    pub fn powershell(&self) -> Option<Zeroizing<String>> {
        let (kit, urls) = (self.kit?, self.urls());
        let first = urls.first()?;
        let gateways = urls.join(",");
        let name = self.name.map(|name| format!(" -Name '{name}'")).unwrap_or_default();
        let mut line = Zeroizing::new(String::new());
        // Writing into a string cannot fail.
        let _ = write!(
            line,
            "'{}' | & {{ $h = '{}'; $f = Join-Path ([IO.Path]::GetTempPath()) ([Guid]::NewGuid().ToString() + '.ps1'); \
             try {{ curl.exe -fsSko $f ('{first}/v1/file/' + $h); if ((Get-FileHash $f -Algorithm SHA256).Hash -ne $h) {{ throw \
             'freehold: the script is not the one that this line names' }}; $input | powershell.exe -NoProfile \
             -ExecutionPolicy Bypass -File $f -Gateway '{gateways}' -Root {} -Agents {}{name} }} finally {{ Remove-Item $f \
             -ErrorAction SilentlyContinue }} }}",
            self.code, kit.powershell, kit.root, kit.release.list
        );
        Some(line)
    }

    /// User data for cloud-init: the code in a private file in memory, and what reads it.
    pub fn cloud_init(&self) -> Zeroizing<String> {
        let name = self.name.map(|name| format!(" --name {name}")).unwrap_or_default();
        let body = self.body("\n").unwrap_or_else(|| format!("freehold-node join{name}"));
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
        let urls = self.urls();
        if let Some(kit) = self.kit.filter(|_| !urls.is_empty()) {
            let _ = writeln!(lines, "FREEHOLD_GATEWAYS={}", urls.join(","));
            let _ = writeln!(lines, "FREEHOLD_SCRIPT_SHA256={}", kit.script);
            let _ = writeln!(lines, "FREEHOLD_ROOT_SHA256={}", kit.root);
            let _ = writeln!(lines, "FREEHOLD_AGENTS_SHA256={}", kit.release.list);
        }
        if let Some(name) = self.name {
            let _ = writeln!(lines, "FREEHOLD_NAME={name}");
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kit() -> Kit {
        let agent = org::release::Agent {
            os: "linux".parse().unwrap(),
            arch: "x86_64".parse().unwrap(),
            version: "0.1.0".parse().unwrap(),
            size: 1,
            sha256: Digest([4; 32]),
        };
        let release = Release::next(None, vec![agent], "2026-11-15T12:00:00Z".parse().unwrap());
        Kit { script: Digest([1; 32]), powershell: Digest([2; 32]), root: Digest([3; 32]), release }
    }

    fn addresses(texts: &[&str]) -> Vec<Address> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_line_names_three_hashes_and_every_gateway() {
        let (kit, gateways) = (kit(), addresses(&["gw.example:7443", "[::1]:7443"]));
        let line = Line { code: "fh1_code", gateways: &gateways, kit: Some(&kit), name: Some("web-1") };
        let told = line.shell();
        let (script, root, list) = (kit.script, kit.root, kit.release.list);
        assert!(told.starts_with("echo fh1_code | (set -e; d=$(mktemp -d); "), "{}", &*told);
        assert!(told.contains(&format!("h={script}; for u in https://gw.example:7443 https://[::1]:7443; do")));
        let runs = format!(
            "; sh join.sh --gateway https://gw.example:7443 --gateway https://[::1]:7443 --root {root} --agents {list} \
             --name web-1)"
        );
        assert!(told.ends_with(&runs), "{}", &*told);
        assert_eq!(told.matches("fh1_code").count(), 1);
        assert!(!told.contains('\n'));
        let windows = line.powershell().unwrap();
        assert!(windows.starts_with("'fh1_code' | & {") && windows.contains(&kit.powershell.to_string()));
        assert!(kit.files().collect::<Vec<_>>().contains(&Digest([4; 32])), "the agent itself is kept, too");
    }

    #[test]
    fn without_a_release_the_agent_must_be_there() {
        let gateways = addresses(&["gw.example:7443"]);
        let line = Line { code: "fh1_code", gateways: &gateways, kit: None, name: None };
        assert_eq!(*line.shell(), "echo fh1_code | freehold-node join");
        assert_eq!((line.installs(), line.powershell()), (false, None));
        assert_eq!(*line.env(), "FREEHOLD_INVITE=fh1_code\n");
        let user_data = line.cloud_init();
        assert!(user_data.starts_with("#cloud-config\n") && user_data.contains("freehold-node join"));
    }
}
