//! `freehold node replace`: the cure when two machines use one node key, or a disk was put back.

use clap::Args;
use identity::principal::NodeName;
use identity::time::{Seconds, Timestamp};
use operate::invite::line;
use operate::invite::line::JoinLine;
use operate::invite::replace::replace;
use operate::replica::roll::Roll;
use operate::session::Session;
use org::enroll::renew::{Conflict, Sighting};
use org::state::Standing;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::or_dash;

use crate::handing::{Handed, Handing};
use crate::home::{Common, During};
use crate::waiting::{Consent, Left, Waiting, leave, leave_beside};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold node replace web-1       revokes its key, and gives a line to run on the machine that stays

Nothing tells a machine from its copy: both hold the same key. So the key ends, and the right machine gets a new one.
If it is cut off, run it again.")]
pub struct Replace {
    /// The node's name
    name: NodeName,
    /// How long the line can be used
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    ttl: Seconds,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    handing: Handing,
}

#[derive(Serialize)]
struct Told {
    name: String,
    /// Absent if the key was revoked before.
    head: Option<u64>,
    invite: String,
    code: String,
    #[serde(flatten)]
    handed: Handed,
    expires_at: Timestamp,
    /// What other operators must sign first: the invite, the revocation, or both.
    pending: Vec<Waiting>,
}

impl Replace {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not replace `{}`", self.name);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let node = operate::node::find(&mut session, &self.name).await.during(&doing)?;
        if node.state != Standing::Revoked {
            operate::node::check_revocable(session.head(), &node)
                .map_err(|why| Failure::refused(&doing, why.to_string()))?;
        }
        if !common.json {
            eprintln!("{} (last seen {})", node.spiffe_id, or_dash(node.observed.last_seen.as_ref()));
            eprintln!("  its key is revoked: every machine that holds it is cut off at once, for good");
            eprintln!("  one machine can then join as `{}` again, with a new key", node.name);
        }
        let consent = Consent { common, doing: &doing, yes: self.yes, question: "Replace it?" };
        let draft = |session: &Session, now| match node.state {
            Standing::Revoked => Ok(Roll::default()),
            _ => Ok(operate::node::draft_revocation(session, &node, now)?.roll),
        };
        consent.ask(&mut session, draft).await?;
        let kit = line::kit(&mut session).await.during(&doing)?;
        self.handing.check(kit.is_some(), &doing)?;
        let replaced = replace(&mut session, &keys, &node, self.ttl, kit.clone()).await;
        let replaced = replaced.during(&doing)?;
        let (invite, revocation) = (&replaced.invite, replaced.head.as_ref());
        let known = &session.known;
        // The invite's file has the given name, and the revocation's one of its own beside it.
        let for_invite = leave(common, &doing, known, invite)?;
        let for_revocation = leave_beside(common, &doing, known, revocation)?;
        let (gateways, code) = (replaced.code.gateways.clone(), replaced.code.encode());
        let name = Some(node.name.as_str());
        let line =
            JoinLine { code: &code, gateways: &gateways, kit: kit.as_ref(), start: replaced.start.as_ref(), name };
        let told = Told {
            name: node.name.to_string(),
            head: revocation.map(|made| made.what.version),
            invite: invite.what.id.to_string(),
            handed: self.handing.hand(&line, &doing)?,
            code: code.to_string(),
            expires_at: invite.what.expires_at,
            pending: [for_invite, for_revocation].into_iter().filter_map(Left::into_waiting).collect(),
        };
        told.tell(common.json);
        Ok(())
    }
}

impl Told {
    fn tell(&self, json: bool) {
        if json {
            show(true, self, String::new);
            return;
        }
        let (name, until) = (&self.name, self.expires_at);
        let ended = match self.head {
            None => "was revoked before".to_owned(),
            Some(head) if self.pending.is_empty() => format!("is revoked (head {head})"),
            Some(head) => format!("will be revoked by head {head}"),
        };
        let when = if self.pending.is_empty() { "" } else { ", once the others have signed and all of it was sent" };
        let waits = self.pending.iter().map(Waiting::in_words).collect::<Vec<_>>().join("\n");
        self.handed.tell(
            &format!("the old key of `{name}` {ended}"),
            &format!("On the machine that stays, until {until}{when}"),
            (!waits.is_empty()).then_some(waits.as_str()),
        );
    }
}

/// What an alarm rests on, and what to do about it.
pub fn evidence(name: &NodeName, conflict: Option<&Conflict>) -> Vec<String> {
    let sighting = |sighting: &Sighting| {
        let source = sighting.source.map_or_else(|| "an unknown address".to_owned(), |source| source.to_string());
        format!("number {} for key {} at {} from {source}", sighting.counter, sighting.request, sighting.at)
    };
    let mut lines = Vec::new();
    if let Some(conflict) = conflict {
        lines.extend(conflict.known.as_ref().map(|known| format!("  issued   {}", sighting(known))));
        lines.push(format!("  asked    {}", sighting(&conflict.presented)));
        lines.extend(conflict.since.iter().map(|(source, at)| format!("  since    asked again from {source} at {at}")));
        if conflict.known.as_ref().map_or(0, |known| known.counter) + 1 < conflict.presented.counter {
            lines.push("           the machine is ahead of the gateway: was the gateway's folder put back?".to_owned());
        }
    }
    lines.push("           no machine with this key gets anything any more, nor can it check in".to_owned());
    lines.push(format!("  cure     freehold node replace {name}"));
    lines
}
