//! `freehold user add`: what to add to the fleet for a user, and an invite for her machine.

use clap::Args;
use identity::principal::{Name, NodeName};
use identity::time::Seconds;
use manifest::fleet::Fleet;
use operate::invite::line::JoinLine;
use operate::invite::user::{self, BadUser, MachineInvite, NewUser};
use operate::publish::fleet::FleetFolder;
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use crate::commands::fleet::check::known;
use crate::home::{Common, During};
use crate::waiting::{Left, Waiting, leave};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold user add alice --node alice-laptop --role staff

No file is changed: put what it prints into your fleet, commit it, and publish. The invite lets one machine join, under
exactly that name.")]
pub struct Add {
    /// The user's name
    name: Name,
    /// The machine on which she is herself
    #[arg(long = "node", value_name = "NAME")]
    machine: NodeName,
    /// A role that she has; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<Name>,
    /// How long the invite can be used
    #[arg(long, value_name = "SPAN", default_value = "1h")]
    ttl: Seconds,
}

#[derive(Serialize)]
struct Added {
    yaml: String,
    /// Nothing if the machine is a member already.
    invite: Option<InviteTold>,
    #[serde(flatten)]
    pending: Left,
}

#[derive(Serialize)]
struct InviteTold {
    id: String,
    code: String,
    line: String,
    expires_at: String,
}

impl InviteTold {
    fn of(made: &MachineInvite, machine: &NodeName) -> Self {
        let code = made.code.encode();
        let gateways = &made.code.gateways;
        let (kit, start, name) = (made.kit.as_ref(), made.start.as_ref(), Some(machine.as_str()));
        let line = JoinLine { code: &code, gateways, kit, start, name };
        Self {
            id: made.invite.id.to_string(),
            line: line.shell().to_string(),
            code: code.to_string(),
            expires_at: made.invite.expires_at.to_string(),
        }
    }
}

impl Add {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not add `{}`", self.name);
        let fleet = fleet_here(common);
        let user = NewUser { name: self.name, machine: self.machine, roles: self.roles };
        user.check(fleet.as_ref()).map_err(|why| bad_user(&doing, &why))?;
        let (mut session, keys) = common.signing_session(&doing).await?;
        user.check_name(&session.known.founding.record.name, session.head()).map_err(|why| bad_user(&doing, &why))?;
        let made = user::invite_machine(&mut session, &keys, &user.name, &user.machine, self.ttl).await;
        let (mut invite, mut pending) = (None, Left::default());
        if let Some(made) = made.during(&doing)? {
            pending = leave(common, &doing, &session.known, &made)?;
            invite = Some(InviteTold::of(&made.what, &user.machine));
        }
        let added = Added { yaml: user.yaml(fleet.as_ref()), invite, pending };
        show(common.json, &added, || in_words(&added, &user.machine));
        Ok(())
    }
}

/// The fleet that lies here, if it can be read.
fn fleet_here(common: &Common) -> Option<Fleet> {
    let (fleet, _) = FleetFolder::find(None).ok()?.read(&known(common)).ok()?.ok()?;
    Some(fleet)
}

fn bad_user(doing: &str, why: &BadUser) -> Failure {
    let failure = Failure::new(doing, why);
    let failure = match why {
        BadUser::NamedLikeMachine => failure.exit(Exit::Usage),
        BadUser::Declared(_) | BadUser::NoRole { .. } | BadUser::Revoked(_) => failure.exit(Exit::Refused),
    };
    match why.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn in_words(added: &Added, machine: &NodeName) -> String {
    let mut parts = vec![format!("Add this to the fleet, commit it, then: freehold publish\n\n{}", added.yaml)];
    parts.push(match &added.invite {
        None => format!("`{machine}` is a member already: it needs no invite."),
        Some(InviteTold { expires_at, line, .. }) => {
            let when = added.pending.waiting().map_or("", |_| ", once the others have signed and it was sent");
            format!("On `{machine}`, until {expires_at}{when}:\n\n  {line}\n")
        }
    });
    parts.extend(added.pending.waiting().map(Waiting::in_words));
    parts.join("\n")
}
