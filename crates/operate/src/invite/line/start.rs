//! The line itself: the hash of a small script, which knows all else, and the part of the code that is secret.

use std::collections::BTreeMap;

use identity::id::Digest;
use org::invite::code::InviteCode;
use zeroize::Zeroizing;

use super::{Kit, Source, body, sources};
use crate::release::files;
use crate::session::{Result, Session};

/// As many gateways as a code can name, and more, have room in it.
const START_BYTES: usize = 99_999;

/// What a line fetches first: a script of the same words for everybody who joins by the same gateways, roots and agents.
#[derive(Debug)]
pub struct Start {
    pub digest: Digest,
    /// The end of the code, which the gateway never sees.
    secret: Zeroizing<String>,
}

/// Puts the code together again, and goes on with the script that is the same for all. No line ends it: a shell would
/// take that away from what it has read.
fn script(kit: &Kit, sources: &[Source], public: &str) -> String {
    let body = body(kit, sources, " ${1+\"$@\"}");
    format!(
        "#!/bin/sh\n# Fetches what makes this machine a member of a Freehold org, compares it with its hash, and runs it.\n# It \
         knows of the code what everybody may; the rest is on stdin.\nif [ -n \"${{ZSH_VERSION:-}}\" ]; then emulate sh; fi\nread \
         -r secret\necho \"{public}$secret\" | (\n{body}\n)"
    )
}

impl Start {
    /// Handed in before the invite names it. Nothing where no plain download reaches a gateway.
    pub(crate) async fn hand_in(session: &mut Session, kit: &Kit, code: &InviteCode) -> Result<Option<Self>> {
        let Some((start, script)) = Self::draw(kit, code) else { return Ok(None) };
        files::hand_in(session, &[script.as_bytes()], |_| {}).await?;
        Ok(Some(start))
    }

    pub(super) fn draw(kit: &Kit, code: &InviteCode) -> Option<(Self, String)> {
        let sources = sources(kit, &code.gateways);
        let (public, secret) = code.halves();
        let script = script(kit, &sources, &public);
        let digest = Digest::of(script.as_bytes());
        (!sources.is_empty()).then_some((Self { digest, secret }, script))
    }

    /// Nothing but what has the hash runs. The secret is a word of `echo`, which every shell has built in, so that no list of
    /// processes shows it. Every letter counts: what is short is copied whole. A download that failed ends with `@`, so that
    /// at the end `$s` is what stands behind: nothing, or what somebody gave whole in the place of the script.
    pub(super) fn line(&self, sources: &[Source], more: &str) -> Zeroizing<String> {
        let mut by_proxy: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for Source { at, proxy, root: _ } in sources {
            by_proxy.entry(proxy.as_deref()).or_default().push(at);
        }
        // What an earlier one gave is not forgotten where a later one is silent.
        let (begin, failed) = if sources.len() > 1 { ("s= ", "\"@$s\"") } else { ("", "@") };
        let mut tries: Vec<_> = by_proxy.iter().map(|(proxy, places)| tries(*proxy, places, failed)).collect();
        for later in tries.iter_mut().skip(1) {
            *later = format!("{{ {later};}}");
        }
        // `!` makes 1 of what `echo` did: that is what `exit` goes by where nothing is said.
        Zeroizing::new(format!(
            "({begin}h={};{}||{{ s=${{s##*@}};! echo freehold: no script${{s:+ but a fake, not run}}>&2;exit \
             ${{s:+3}};}};echo {}|sh -c \"$s\" -{more})",
            self.digest,
            tries.join("||"),
            &*self.secret,
        ))
    }
}

/// Shell: true as soon as one of these gave what hashes to `$h`, and it is in `$s`. Every byte passes through `dd`, which
/// ends after so many: fewer than a word of a command may have.
fn tries(proxy: Option<&str>, places: &[&str], failed: &str) -> String {
    let get = match proxy {
        Some(proxy) => format!("curl -qgfkm300 --socks5-hostname {proxy} $u"),
        // As much of `--no-check-certificate` as wget needs, GNU's and busybox'.
        None => "curl -qgfkm300 $u||wget -qO- -T60 --no-check $u".to_owned(),
    };
    // Brackets mean something to a shell.
    let quoted = |place: &&str| if place.contains('[') { format!("_f '{place}'") } else { format!("_f {place}") };
    // Not `echo`: in some shells it would make the script of what is another one.
    format!(
        "_f(){{ u=https://$1/v1/file/$h;s=$( ({get}||echo {failed})|dd bs=1 count={START_BYTES});printf %s \
         \"$s\"|(sha256sum||openssl sha256)|grep -q $h;}} 2>/dev/null;{}",
        places.iter().map(quoted).collect::<Vec<_>>().join("||")
    )
}
