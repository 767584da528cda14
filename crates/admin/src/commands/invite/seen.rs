//! An invite as `list` and `show` tell of it: its state, and whether what it pins is retired.

use ground::clock;
use identity::principal::glob::NameGlob;
use identity::principal::host::HostGlob;
use ledger::views::InviteView;
use operate::session::{OperateError, Session};
use operate::trust::stranded::Stranded;
use operate::trust::stranded::stranded;
use org::invite::{InviteKind, Uses};

pub fn uses_json(uses: Uses) -> serde_json::Value {
    match uses {
        Uses::Limited(n) => n.into(),
        Uses::Unlimited => "unlimited".into(),
    }
}

pub const PINS_RETIRED: &str = "the endpoint root that it pins is retired, so it finds no gateway";

pub const MAKE_NEW: &str = "make a new one: freehold invite create";

/// An invite, and what it pins if that is why nobody can come with it.
pub struct StrandedView {
    pub view: InviteView,
    pub stranded: Option<Stranded>,
}

impl StrandedView {
    pub async fn all(session: &mut Session, views: Vec<InviteView>) -> Result<Vec<Self>, OperateError> {
        // A pattern lets in also whoever comes with a newer code: it is open, whatever became of its own.
        let open = views.iter().filter(|view| state(view) == OPEN && view.kind != InviteKind::Pattern);
        let open: Vec<_> = open.map(|view| view.id).collect();
        let mut stranded = stranded(session, &open).await?;
        Ok(views.into_iter().map(|view| Self { stranded: stranded.remove(&view.id), view }).collect())
    }

    pub fn state(&self) -> &'static str {
        if self.stranded.is_some() { "stranded" } else { state(&self.view) }
    }

    pub fn why(&self) -> Option<String> {
        let Stranded { root, version } = self.stranded?;
        let version = version.map(|version| format!(" of version {version}")).unwrap_or_default();
        Some(format!("{PINS_RETIRED}: {root}{version}"))
    }
}

/// The names that it lets in; where it goes by full host names, those.
pub fn who(names: &[NameGlob], hosts: &[HostGlob]) -> String {
    let names = names.iter().filter(|name| hosts.is_empty() || !name.is_any()).map(ToString::to_string);
    names.chain(hosts.iter().map(ToString::to_string)).collect::<Vec<_>>().join(" ")
}

/// An invite with its state in one word, and its uses as `create` tells them.
pub fn told(seen: &StrandedView) -> serde_json::Value {
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
