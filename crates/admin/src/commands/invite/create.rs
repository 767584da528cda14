//! `freehold invite create`: an invite, and the line to run on the machine that joins.

use clap::Args;
use identity::principal::glob::NameGlob;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use ipnet::IpNet;
use operate::invite;
use operate::invite::line;
use operate::invite::line::JoinLine;
use operate::invite::{InviteWish, NewInvite};
use org::invite::{InviteKind, Uses};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::invite::seen::{uses_json, who};
use crate::commands::invite::terms::{TermsArgs, warn_of_low};
use crate::handing::{Handed, Handing};
use crate::home::{Common, During};
use crate::waiting::{Left, Waiting, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold invite create                                      one machine, any name, within an hour
  freehold invite create --uses 3 --ttl 1h --name 'web-*'
  freehold invite create --uses unlimited --ttl 30d --from 10.0.0.0/8 --label 'rack 3'
  freehold invite create --format cloud-init --out user-data.yaml
  freehold invite create --kind key --out image.invite --uses unlimited --ttl 90d --name 'web-*' --approval human
  freehold invite create --pattern '*.web.example.com' --from 10.0.0.0/8

The line installs the agent of the org's release, if there is one: freehold release add. The code in it holds a secret:
whoever has it can join within these bounds. That of a pattern holds none, and proves nothing.")]
pub struct Create {
    /// How many machines may join: a number, or `unlimited` [default: 1; unlimited with --pattern]
    #[arg(long)]
    uses: Option<Uses>,
    /// How long it can be used [default: 1h; 24h if a person must say yes]
    #[arg(long, value_name = "SPAN")]
    ttl: Option<Seconds>,
    /// Names that a joiner may take, `*` stands for anything; may be repeated [default: any]
    #[arg(long = "name", value_name = "GLOB")]
    names: Vec<NameGlob>,
    /// Networks from which it can be used; may be repeated [default: any]
    #[arg(long = "from", alias = "network", value_name = "CIDR")]
    networks: Vec<IpNet>,
    /// A label that a joiner may take; may be repeated
    #[arg(long = "give-label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// A role that a joiner may take; may be repeated
    #[arg(long = "give-role", value_name = "ROLE")]
    roles: Vec<Name>,
    /// A gateway at which it can be used; may be repeated, and the uses are shared out [default: the one that is asked]
    #[arg(long, value_name = "GATEWAY")]
    at: Vec<NodeName>,
    /// What it is for, in your words
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    #[command(flatten)]
    handing: Handing,
    #[command(flatten)]
    terms: TermsArgs,
}

#[derive(Serialize)]
struct Created {
    id: String,
    kind: InviteKind,
    /// Absent if it is a key, which lies in its file alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(flatten)]
    handed: Handed,
    uses: serde_json::Value,
    expires_at: String,
    #[serde(flatten)]
    pending: Left,
}

impl Create {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not create an invite";
        let wanted = self.terms.wanted(self.names, self.uses, self.ttl, doing)?;
        let (mut session, keys) = common.signing_session(doing).await?;
        let kit = line::kit(&mut session).await.during(doing)?;
        let handing = if wanted.is_key() { self.handing.into_file() } else { self.handing };
        handing.check(kit.is_some(), doing)?;
        let wish = InviteWish {
            label: self.label,
            uses: wanted.uses,
            ttl: wanted.ttl,
            names: wanted.names,
            networks: self.networks,
            labels: self.labels.into_iter().collect(),
            roles: self.roles.into_iter().collect(),
            at: self.at,
            kit,
            after: 0,
            approval: wanted.approval,
            approvers: wanted.approvers,
            terms: wanted.terms,
        };
        let made = invite::create(&mut session, &keys, &wish).await.during(doing)?;
        let pending = leave(common, doing, &session.known, &made)?;
        let NewInvite { invite, code, start } = made.what;
        let (gateways, code) = (code.gateways.clone(), code.encode());
        // If there is but one name to take, nobody need type it.
        let name = if let [only] = invite.names.as_slice() { only.only() } else { None };
        let line = JoinLine { code: &code, gateways: &gateways, kit: wish.kit.as_ref(), start: start.as_ref(), name };
        if invite.kind == InviteKind::Pattern && !common.json {
            warn_of_low(invite.approval);
        }
        let handed = handing.hand(&line, doing)?;
        let secret = invite.kind == InviteKind::Key;
        let created = Created {
            id: invite.id.to_string(),
            kind: invite.kind,
            handed: if secret { handed.without_secret() } else { handed },
            code: (!secret).then(|| code.to_string()),
            uses: uses_json(invite.uses()),
            expires_at: invite.expires_at.to_string(),
            pending,
        };
        if common.json {
            show(true, &created, String::new);
            return Ok(());
        }
        let names = who(&invite.names, &invite.hosts);
        let (id, uses, until) = (&created.id, invite.uses(), &created.expires_at);
        let when = created.pending.waiting().map_or("", |_| ", once the others have signed and it was sent");
        created.handed.tell(
            &format!("invite {id}: {uses} use(s), until {until}, names {names}"),
            &format!("On the machine that joins{when}"),
            created.pending.waiting().map(Waiting::in_words).as_deref(),
        );
        Ok(())
    }
}
