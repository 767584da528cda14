//! `freehold bundle issue | sign`: one file that lets one machine in.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ground::file;
use ground::passphrase::Passphrase;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use ipnet::IpNet;
use operate::invite;
use operate::invite::kinds::{InviteChoice, InviteTerms};
use operate::invite::{InviteWish, NewInvite, bundle};
use org::invite::carried::JoinRequest;
use org::invite::{Approval, InviteKind, Uses};
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::invite::terms::{check_free, write_new};
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

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold bundle issue web-1                                  draws a passphrase, and prints it once
  freehold bundle issue web-1 --out /media/usb/web-1.bundle --bundle-passphrase-file FILE
  freehold-node join --bundle web-1.bundle                     on the machine

Send the file and the passphrase by different ways. Inside is a key that is good once, to endorse a key that the machine
makes itself. If another machine shows it later it is refused, and `freehold invite show` and `freehold node list` say so.")]
pub struct Issue {
    /// The name that the machine takes
    name: NodeName,
    /// Where to write the bundle [default: NAME.bundle here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The bundle's passphrase, as the first line of a file [default: one is drawn and printed]
    #[arg(long, value_name = "FILE")]
    bundle_passphrase_file: Option<PathBuf>,
    /// Ask for the bundle's passphrase instead of drawing one
    #[arg(long, conflicts_with = "bundle_passphrase_file")]
    ask: bool,
    #[command(flatten)]
    bounds: Bounds,
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

impl Issue {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not issue a bundle for `{}`", self.name);
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{}.bundle", self.name)));
        check_free(&out, &doing)?;
        let drawn = match (&self.bundle_passphrase_file, self.ask) {
            (None, false) => Some(bundle::draw_passphrase().during(&doing)?),
            _ => None,
        };
        let passphrase = match (&drawn, &self.bundle_passphrase_file) {
            (Some(drawn), _) => Passphrase::new(drawn.to_string()),
            (None, Some(path)) => Passphrase::from_file(path).during(&doing)?,
            (None, None) => Passphrase::ask_new("passphrase for the bundle").during(&doing)?,
        };
        let wish = self.bounds.wish(&self.name, InviteChoice::Bundle, &doing)?;
        let told = make(common, &self.name, &wish, &out, Some(&passphrase), &doing).await?;
        let told = Told { passphrase: drawn.map(|drawn| drawn.to_string()), ..told };
        show(common.json, &told, || told.in_words());
        Ok(())
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

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold-node csr --name web-1 --out web-1.request          on the machine: its keys stay there
  freehold bundle sign web-1.request --out web-1.bundle       here
  freehold-node join --bundle web-1.bundle                    on the machine

Compare the node key with what the machine printed. The bundle holds no secret: it is of use to that machine alone.")]
pub struct SignRequest {
    /// The machine's request
    request: PathBuf,
    /// Where to write the bundle
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The name that the machine takes, if not the one that it asks for
    #[arg(long)]
    name: Option<NodeName>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    bounds: Bounds,
}

impl SignRequest {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not sign `{}`", self.request.display());
        check_free(&self.out, &doing)?;
        let bytes = file::read(&self.request).during(&doing)?;
        let request = bundle::open_request(&bytes).map_err(|why| {
            let hint = "have the machine make it again: freehold-node csr";
            Failure::refused(&doing, why.to_string()).hint(hint)
        })?;
        let name = self.name.unwrap_or_else(|| request.name.clone());
        if !common.json {
            eprintln!("{}", ground::plain::plain(&in_words(&request, &name)));
        }
        confirm(self.yes, &doing, &format!("Let `{name}` into `{}`?", common.org(&doing)?))?;
        let wish = self.bounds.wish(&name, InviteChoice::Machine(request.node_key), &doing)?;
        let told = make(common, &name, &wish, &self.out, None, &doing).await?;
        show(common.json, &told, || told.in_words());
        Ok(())
    }
}

fn in_words(request: &JoinRequest, name: &NodeName) -> String {
    let other = if request.name == *name { String::new() } else { format!(" (it asked for `{}`)", request.name) };
    format!(
        "a machine that calls itself `{}` asks to be let in as `{name}`{other}\n  node key  {}\n  made at   {}\n\
         Does the machine show this node key? Whoever holds it gets in, and nobody else.",
        // Whoever wrote it could have written lines of its own.
        request.hostname.escape_debug(),
        request.node_key.digest(),
        request.made_at
    )
}
