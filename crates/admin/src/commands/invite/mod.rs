//! `freehold invite create | list | show | revoke`.

pub mod terms;
pub mod waive;
pub mod bundle;
pub mod landing;

use clap::{Args, Subcommand};
use ground::clock;
use identity::principal::glob::NameGlob;
use identity::principal::host::HostGlob;
use identity::principal::label::Label;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use ipnet::IpNet;
use ledger::views::InviteView;
use operate::invite;
use operate::invite::line;
use operate::invite::line::JoinLine;
use operate::invite::{InviteWish, NewInvite};
use operate::session::{OperateError, Session};
use operate::trust::stranded::Stranded;
use operate::trust::stranded::stranded;
use org::invite::{InviteKind, Uses};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;
use wire::control::Reuse;

use crate::commands::invite::terms::{TermsArgs, warn_of_low};
use crate::commands::invite::waive::{Approve, Waivers};
use crate::handing::{Handed, Handing};
use crate::home::{Common, During};
use crate::waiting::{self, Consent, Left, Waiting, leave};

#[derive(Debug, Subcommand)]
pub enum InviteCommand {
    /// Make an invite, and the line to run on the machine that joins
    Create(Create),
    /// List all invites
    List(List),
    /// Show one invite, and who joined with it
    Show(Show),
    /// Revoke an invite; machines that joined with it stay
    Revoke(Revoke),
    /// Say yes beforehand to machines of such names, whose proof holds
    Approve(Approve),
    /// List what was approved beforehand
    Waivers(Waivers),
}

impl InviteCommand {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        match self {
            Self::Create(create) => create.run(common).await,
            Self::List(list) => list.run(common).await,
            Self::Show(show) => show.run(common).await,
            Self::Revoke(revoke) => revoke.run(common).await,
            Self::Approve(approve) => approve.run(common).await,
            Self::Waivers(waivers) => waivers.run(common).await,
        }
    }
}

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
    async fn run(self, common: &Common) -> Result<(), Failure> {
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

fn uses_json(uses: Uses) -> serde_json::Value {
    match uses {
        Uses::Limited(n) => n.into(),
        Uses::Unlimited => "unlimited".into(),
    }
}

#[derive(Debug, Args)]
pub struct List {}

impl List {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the invites";
        let mut session = common.session(doing).await?;
        let invites = invite::all(&mut session).await.during(doing)?;
        let invites = Seen::all(&mut session, invites).await.during(doing)?;
        let told: Vec<_> = invites.iter().map(told).collect();
        show(common.json, &told, || {
            let row = |seen: &Seen| {
                let invite = &seen.view;
                vec![
                    invite.id.to_string(),
                    invite.kind.to_string(),
                    seen.state().to_owned(),
                    format!("{} of {}", invite.spent, invite.uses),
                    invite.expires_at.to_string(),
                    who(&invite.names, &invite.hosts),
                    remark(invite),
                ]
            };
            let rows: Vec<_> = invites.iter().map(row).collect();
            let all = table(&["INVITE", "KIND", "STATE", "SPENT", "EXPIRES", "NAMES", "LABEL"], &rows);
            match invites.iter().filter(|seen| seen.stranded.is_some()).count() {
                0 => all,
                many => format!("{all}\n\n{many} stranded: {PINS_RETIRED}; {MAKE_NEW}"),
            }
        });
        Ok(())
    }
}

const PINS_RETIRED: &str = "the endpoint root that it pins is retired, so it finds no gateway";
const MAKE_NEW: &str = "make a new one: freehold invite create";

/// An invite, and what it pins if that is why nobody can come with it.
struct Seen {
    view: InviteView,
    stranded: Option<Stranded>,
}

impl Seen {
    async fn all(session: &mut Session, views: Vec<InviteView>) -> Result<Vec<Self>, OperateError> {
        // A pattern lets in also whoever comes with a newer code: it is open, whatever became of its own.
        let open = views.iter().filter(|view| state(view) == OPEN && view.kind != InviteKind::Pattern);
        let open: Vec<_> = open.map(|view| view.id).collect();
        let mut stranded = stranded(session, &open).await?;
        Ok(views.into_iter().map(|view| Self { stranded: stranded.remove(&view.id), view }).collect())
    }

    fn state(&self) -> &'static str {
        if self.stranded.is_some() { "stranded" } else { state(&self.view) }
    }

    fn why(&self) -> Option<String> {
        let Stranded { root, version } = self.stranded?;
        let version = version.map(|version| format!(" of version {version}")).unwrap_or_default();
        Some(format!("{PINS_RETIRED}: {root}{version}"))
    }
}

/// What it is for, and what a person should not overlook.
fn remark(invite: &InviteView) -> String {
    let alarm = if invite.reused.is_empty() { "" } else { "ALARM: shown again by another machine " };
    format!("{alarm}{}", invite.label).trim_end().to_owned()
}

/// The names that it lets in; where it goes by full host names, those.
fn who(names: &[NameGlob], hosts: &[HostGlob]) -> String {
    let names = names.iter().filter(|name| hosts.is_empty() || !name.is_any()).map(ToString::to_string);
    names.chain(hosts.iter().map(ToString::to_string)).collect::<Vec<_>>().join(" ")
}

/// An invite with its state in one word, and its uses as `create` tells them.
fn told(seen: &Seen) -> serde_json::Value {
    let mut told = serde_json::to_value(&seen.view).unwrap_or_default();
    if let Some(fields) = told.as_object_mut() {
        fields.insert("kind".to_owned(), seen.view.kind.word().into());
        fields.insert("state".to_owned(), seen.state().into());
        fields.insert("state_why".to_owned(), seen.why().into());
        fields.insert("uses".to_owned(), uses_json(seen.view.uses));
    }
    told
}

const OPEN: &str = "open";

fn state(invite: &InviteView) -> &'static str {
    match invite.uses {
        _ if invite.revoked => "revoked",
        _ if invite.outdated => "outdated",
        _ if clock::now() >= invite.expires_at => "expired",
        Uses::Limited(n) if invite.spent >= n => "used up",
        Uses::Limited(_) | Uses::Unlimited => OPEN,
    }
}

#[derive(Debug, Args)]
pub struct Show {
    /// Its id, the beginning of its id, or its label
    invite: String,
}

impl Show {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not show the invite `{}`", self.invite);
        let mut session = common.session(&doing).await?;
        let invite = invite::find(&mut session, &self.invite).await.during(&doing)?;
        let seen = Seen::all(&mut session, vec![invite]).await.during(&doing)?;
        for seen in &seen {
            show(common.json, &told(seen), || in_words(seen));
        }
        Ok(())
    }
}

fn in_words(seen: &Seen) -> String {
    let invite = &seen.view;
    let list = |items: Vec<String>, none: &str| if items.is_empty() { none.to_owned() } else { items.join(" ") };
    let strings = |items: &[Label]| items.iter().map(ToString::to_string).collect();
    let mut lines = vec![
        format!("invite    {}", invite.id),
        format!("kind      {}", invite.kind),
        format!("state     {}", seen.state()),
        format!("label     {}", invite.label),
        format!("uses      {} of {} spent", invite.spent, invite.uses),
        format!("created   {} by {}", invite.created_at, invite.created_by),
        format!("expires   {}", invite.expires_at),
        format!("names     {}", list(invite.names.iter().map(ToString::to_string).collect(), "none")),
        format!("approval  {}", invite.approvers.map_or("none".to_owned(), |n| format!("by {n} operator(s)"))),
        format!("networks  {}", list(invite.networks.clone(), "any")),
        format!("labels    {}", list(strings(&invite.labels), "none")),
        format!("roles     {}", list(invite.roles.iter().map(ToString::to_string).collect(), "none")),
    ];
    if !invite.hosts.is_empty() {
        lines.push(format!("hosts     {}", list(invite.hosts.iter().map(ToString::to_string).collect(), "any")));
    }
    lines.extend(seen.why().map(|why| format!("STRANDED  {why}; {MAKE_NEW}")));
    lines.extend(invite.reused.iter().map(reused));
    if invite.joined.is_empty() {
        lines.push("joined    nobody yet".to_owned());
    }
    for joined in &invite.joined {
        lines.push(format!("joined    {} at {}, now {}", joined.name, joined.at, joined.state.word()));
    }
    lines.join("\n")
}

/// Whoever showed a bundle that another machine had joined with.
pub fn reused(reuse: &Reuse) -> String {
    format!(
        "ALARM     shown again by another machine, from {} at {} ({} time(s)), as `{}` with the key {}; it was refused",
        reuse.source, reuse.at, reuse.times, reuse.name, reuse.node_key
    )
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// Its id, the beginning of its id, or its label
    invite: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct RevokedTold {
    id: String,
    revoked: bool,
    head: u64,
    #[serde(flatten)]
    pending: Left,
}

impl Revoke {
    async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not revoke the invite `{}`", self.invite);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let invite = invite::find(&mut session, &self.invite).await.during(&doing)?;
        if invite.revoked {
            return Err(Failure::refused(&doing, "it is already revoked"));
        }
        if !common.json {
            eprintln!(
                "Nobody can join with {} any more. The {} machine(s) that did stay members. It cannot be undone; a new \
                 invite can be made.",
                invite.id,
                invite.joined.len()
            );
        }
        let consent = Consent { common, doing: &doing, yes: self.yes, question: "Revoke it?" };
        let draft = |session: &Session, now| Ok(invite::draft_revocation(session, invite.id, now)?.roll);
        let sign = async |session: &mut Session| invite::revoke(session, &keys, invite.id).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let head = head.version;
        let result = RevokedTold { id: invite.id.to_string(), revoked: pending.waiting().is_none(), head, pending };
        show(common.json, &result, || {
            waiting::told(result.pending.waiting(), || format!("revoked invite {} (head {head})", invite.id))
        });
        Ok(())
    }
}
