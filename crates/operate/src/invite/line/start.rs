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

/// Puts the code together again, and goes on with the script that is the same for all.
fn script(kit: &Kit, sources: &[Source], public: &str) -> String {
    let body = body(kit, sources, " ${1+\"$@\"}");
    format!(
        "#!/bin/sh\n# Fetches what makes this machine a member of a Freehold org, compares it with its hash, and runs it.\n# It \
         knows of the code what everybody may; the rest is on stdin.\nif [ -n \"${{ZSH_VERSION:-}}\" ]; then emulate sh; fi\nread \
         -r secret\necho \"{public}$secret\" | (\n{body}\n)\n"
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
    /// processes shows it. Every letter counts: what is short is copied whole.
    pub(super) fn line(&self, sources: &[Source], more: &str) -> Zeroizing<String> {
        let mut by_proxy: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for Source { at, proxy, root: _ } in sources {
            by_proxy.entry(proxy.as_deref()).or_default().push(at);
        }
        let mut tries: Vec<_> = by_proxy.iter().map(|(proxy, places)| tries(*proxy, places)).collect();
        for later in tries.iter_mut().skip(1) {
            *later = format!("{{ {later};}}");
        }
        Zeroizing::new(format!(
            "(f=$(mktemp);trap 'rm \"$f\"' 0;h={};{}||{{ echo freehold: no gateway gave the script>&2;exit \
             1;}};echo {}|sh \"$f\"{more})",
            self.digest,
            tries.join("||"),
            &*self.secret,
        ))
    }
}

/// Shell: true as soon as one of these gave what hashes to `$h`, and it is in `$f`. Every byte passes through `dd`, which
/// ends after so many.
fn tries(proxy: Option<&str>, places: &[&str]) -> String {
    let get = match proxy {
        Some(proxy) => format!("curl -qgsfkm300 --socks5-hostname {proxy} $u"),
        None => "(curl -qgsfkm300 $u||wget -qO- -T60 --no-check-certificate $u)".to_owned(),
    };
    // Brackets mean something to a shell.
    let quoted = |place: &&str| if place.contains('[') { format!("_f '{place}'") } else { format!("_f {place}") };
    format!(
        "_f(){{ u=https://$1/v1/file/$h;{get}|dd bs=1 count={START_BYTES} of=\"$f\";(sha256sum||openssl dgst \
         -sha256)<\"$f\"|grep -q $h;}} 2>/dev/null;{}",
        places.iter().map(quoted).collect::<Vec<_>>().join("||")
    )
}
