//! `freehold bundle issue | sign`: one file that lets one machine in.

mod issue;
mod sign;

use std::path::Path;

use clap::{Args, Subcommand};
use ground::passphrase::Passphrase;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use ipnet::IpNet;
use operate::invite;
use operate::invite::kinds::{InviteChoice, InviteTerms};
use operate::invite::{InviteWish, NewInvite, bundle};
use org::invite::{Approval, InviteKind, Uses};
use serde::Serialize;
use terminal::failure::Failure;

use self::issue::Issue;
use self::sign::SignRequest;
use crate::commands::invite::terms::write_new;
use crate::home::{Common, During};
use crate::waiting::{Left, Waiting, leave};

#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Make an encrypted file with which one machine joins, once
    Issue(Issue),
    /// Sign the request that a machine made with `freehold-node csr`
    Sign(SignRequest),
}

impl BundleCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Issue(issue) => issue.run(common).await,
            Self::Sign(sign) => sign.run(common).await,
        }
    }
}

/// What both ways have in common.
#[derive(Debug, Args)]
struct Bounds {
    /// How long it can be used
    #[arg(long, value_name = "SPAN", default_value = "7d")]
    ttl: Seconds,
    /// Networks from which it can be used; may be repeated [default: any]
    #[arg(long = "from", value_name = "CIDR")]
    networks: Vec<IpNet>,
    /// A label that the machine may take; may be repeated
    #[arg(long = "give-label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    /// A role that the machine may take; may be repeated
    #[arg(long = "give-role", value_name = "ROLE")]
    roles: Vec<Name>,
}

impl Bounds {
    fn wish(self, name: &NodeName, kind: InviteChoice, doing: &str) -> Result<InviteWish, Failure> {
        let only = name.as_str().parse().map_err(|_| Failure::usage(doing, "not a node's name"))?;
        Ok(InviteWish {
            at: Vec::new(),
            label: format!("bundle for {name}"),
            uses: Uses::Limited(1),
            ttl: self.ttl,
            names: vec![only],
            networks: self.networks,
            labels: self.labels.into_iter().collect(),
            roles: self.roles.into_iter().collect(),
            kit: None,
            after: 0,
            approval: Approval::None,
            approvers: 1,
            terms: InviteTerms::of(kind),
        })
    }
}

#[derive(Serialize)]
struct Told {
    name: String,
    invite: String,
    kind: InviteKind,
    file: String,
    /// Only if it was drawn here: it is told once.
    #[serde(skip_serializing_if = "Option::is_none")]
    passphrase: Option<String>,
    expires_at: String,
    #[serde(flatten)]
    pending: Left,
}

impl Told {
    fn in_words(&self) -> String {
        let when = self.pending.waiting().map_or("", |_| ", once the others have signed and it was sent");
        let mut lines = vec![format!(
            "wrote `{}`: one machine joins with it as `{}` until {}{when}",
            self.file, self.name, self.expires_at
        )];
        if let Some(passphrase) = &self.passphrase {
            lines.push(format!("its passphrase, which is shown this once: {passphrase}"));
            lines.push("Send the file and the passphrase by different ways.".to_owned());
        }
        lines.push(format!("On the machine:\n\n  freehold-node join --bundle {}\n", self.file));
        lines.extend(self.pending.waiting().map(Waiting::in_words));
        lines.join("\n")
    }
}

/// Makes the invite, and then the file.
async fn make(
    common: &Common,
    name: &NodeName,
    wish: &InviteWish,
    out: &Path,
    passphrase: Option<&Passphrase>,
    doing: &str,
) -> Result<Told, Failure> {
    let (mut session, keys) = common.signing_session(doing).await?;
    let made = invite::create(&mut session, &keys, wish).await.during(doing)?;
    let pending = leave(common, doing, &session.known, &made)?;
    let NewInvite { invite, code, start: _ } = made.what;
    let org = bundle::org(&mut session).await.during(doing)?;
    let file = bundle::file(code, name, &org, passphrase).during(doing)?;
    write_new(out, &file, doing)?;
    Ok(Told {
        name: name.to_string(),
        invite: invite.id.to_string(),
        kind: invite.kind,
        file: out.display().to_string(),
        passphrase: None,
        expires_at: invite.expires_at.to_string(),
        pending,
    })
}
