//! The person for whom a root is rotated: hears how it goes, is asked, and has the root keys.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use gateway::gateway::Gateway;
use gateway::store::folder::GatewayFolder;
use ground::plain::plain;
use identity::authority::Authority;
use identity::bundle::{Domain, InDomain};
use identity::head::Mandate;
use identity::time::Timestamp;
use node::commands::run::stop_signal;
use operate::key::SignerKeys;
use operate::session::{Desk, OperateError, Session};
use operate::trust::lifetimes::Lifetimes;
use operate::trust::rotate::HowFar;
use operate::trust::rotate::replace::{Rescuer, Threat};
use operate::trust::rotate::run::{Attendant, News};
use operate::trust::rotate::spares::{NotDrawn, OldSpare};
use operate::trust::step::StepOutcome;
use operate::trust::stolen::Spares;
use terminal::confirm::confirm;
use terminal::failure::Failure;
use tokio::sync::watch::Receiver;
use wire::connect::GatewayAddress;

use super::Rotate;
use super::bar::Bar;
use crate::commands::trust::plan::Planned;
use crate::commands::trust::rollback;
use crate::home::{Common, During, failure};
use crate::local::AnyDesk;
use crate::root_keys::RootKeys;

pub(super) struct Person<'a> {
    wish: &'a Rotate,
    lives: Lifetimes,
    common: &'a Common,
    keys: &'a SignerKeys,
    doing: &'a str,
    /// Drawn while somebody waits.
    bar: Option<Bar>,
    interrupt: Option<Receiver<bool>>,
}

/// Why it went no further.
pub(super) enum Stop {
    Operate(OperateError),
    NotDrawn(NotDrawn),
    Told(Failure),
}

impl Stop {
    pub(super) fn told(self, doing: &str) -> Failure {
        match self {
            Self::Operate(why) => failure(doing, &why),
            Self::NotDrawn(NotDrawn { gateway, why }) => failure(doing, &*why).hint(format!(
                "`{gateway}` drew no new spare key: run this again; or leave it out: --without {gateway}"
            )),
            Self::Told(failure) => failure,
        }
    }
}

impl From<OperateError> for Stop {
    fn from(why: OperateError) -> Self {
        Self::Operate(why)
    }
}

impl From<NotDrawn> for Stop {
    fn from(why: NotDrawn) -> Self {
        Self::NotDrawn(why)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Told(failure)
    }
}

impl<'a> Person<'a> {
    pub(super) const fn new(
        wish: &'a Rotate,
        lives: Lifetimes,
        common: &'a Common,
        keys: &'a SignerKeys,
        doing: &'a str,
    ) -> Self {
        Self { wish, lives, common, keys, doing, bar: None, interrupt: None }
    }

    fn say(&self, words: &str) {
        if !self.common.json {
            eprintln!("{}", plain(words));
        }
    }
}

impl Attendant for Person<'_> {
    type Stop = Stop;

    fn hear(&mut self, news: &News) {
        self.say(&in_words(news));
    }

    fn begin_another(&mut self, finished: Timestamp, active: u64) -> Result<(), Stop> {
        let (word, last) = (self.wish.domain.word(), last(finished, active));
        if std::io::stdin().is_terminal() {
            return Ok(confirm(false, self.doing, &format!("{last}. Begin another?"))?);
        }
        let why = format!("{last}, and this would begin another; there is no terminal to ask at");
        Err(Failure::usage(self.doing, why)
            .hint(format!("nothing is left to do; if you mean it: freehold rotate {word} --yes"))
            .into())
    }

    async fn root<T: InDomain>(&mut self, session: &mut Session) -> Result<Authority<T>, Stop> {
        Ok(RootKeys::new(self.common, session, self.wish.roots.clone())
            .lasting(self.lives)
            .next::<T>(session, self.doing)
            .await?)
    }

    fn show(&mut self, how_far: &HowFar, ended: bool) {
        let bar = self.bar.get_or_insert_with(|| Bar::new(self.common.json));
        // Whoever is missing at the end is named by the error, once.
        bar.show(&how_far.done, if ended { &[] } else { &how_far.rest });
        if ended {
            self.bar = None;
        }
    }

    fn is_interrupted(&mut self) -> Result<bool, Stop> {
        let signal = match self.interrupt.take() {
            Some(signal) => signal,
            None => stop_signal().during(self.doing)?,
        };
        Ok(*self.interrupt.insert(signal).borrow())
    }

    async fn pause(&mut self, span: Duration) {
        match &mut self.interrupt {
            Some(signal) => drop(tokio::time::timeout(span, signal.changed()).await),
            None => tokio::time::sleep(span).await,
        }
    }
}

impl Rescuer for Person<'_> {
    /// Over the network, or in this home if it sleeps here.
    async fn desk(&mut self, session: &Session, mandate: &Mandate) -> Option<Box<dyn Desk>> {
        let org = &session.known.founding.record.name;
        let doors: Vec<GatewayAddress> = mandate.addresses.iter().cloned().map(GatewayAddress::from).collect();
        if !doors.is_empty()
            && let Ok(desk) = self.common.remote(org, self.keys, doors, self.doing).await
        {
            return Some(Box::new(desk));
        }
        let folder = GatewayFolder::at(&self.common.home(), org);
        let here = folder.folder.exists() && folder.about().is_ok_and(|about| about.node == mandate.gateway);
        let open = if here { Gateway::open(&folder).ok() } else { None };
        open.map(|gateway| Box::new(AnyDesk::Local(Box::new(gateway))) as Box<dyn Desk>)
    }

    fn threatened(&mut self, threat: &Threat<'_>) {
        self.say(&Planned::of(threat.scene, threat.step, threat.outcome).in_words());
        self.say(match threat.scene.domain {
            Domain::Identity => {
                "\nEvery certificate of every node is worth nothing at once. Each node that is there gets a new one by its \
                 node key within moments; those that are off do when they are back."
            }
            Domain::Endpoint => {
                "\nEvery gateway shows a new certificate at once. Nodes find the new root by the signed head; codes, files \
                 and images that pin an old one are of no use any more."
            }
        });
        for spare in &threat.old {
            self.say(&old(spare, "cannot be asked for a new one now"));
        }
        if !threat.spares.lost.is_empty() {
            let lost = lost_words(threat.spares);
            self.say(&format!("These gateways have told no spare key, or are left out{lost}"));
        }
    }

    /// The org's name, typed: nobody does this by a slip.
    fn agree<T: InDomain>(&mut self, session: &Session) -> Result<(), Stop> {
        let org = session.known.founding.record.name.as_str();
        let typed = match &self.wish.confirm {
            Some(typed) => typed.clone(),
            None if std::io::stdin().is_terminal() => {
                eprint!("This cannot be taken back. Type the org's name to go on: ");
                let _ = std::io::stderr().flush();
                let mut typed = String::new();
                let _ = std::io::stdin().read_line(&mut typed);
                typed.trim().to_owned()
            }
            None => {
                return Err(Failure::usage(self.doing, "this must be confirmed, and there is no terminal to ask at")
                    .hint(format!("add --confirm {org}, if the {} root was stolen", T::DOMAIN.word()))
                    .into());
            }
        };
        if typed == org {
            return Ok(());
        }
        let why = format!("`{}` is not the org's name: nothing was done", plain(&typed));
        Err(Failure::refused(self.doing, why).into())
    }

    async fn fresh_root<T: InDomain>(&mut self, session: &Session) -> Result<Authority<T>, Stop> {
        Ok(RootKeys::new(self.common, session, self.wish.roots.clone())
            .lasting(self.lives)
            .fresh::<T>(session, self.doing)?)
    }

    fn drawn_before(&mut self, spare: &OldSpare) {
        self.say(&old(spare, "has drawn it for this head already, and something that waits may name it"));
    }

    fn replaced(&mut self, turned: &StepOutcome, spares: &Spares, waits: bool) {
        self.say(&format!(
            "version {} of `{}` is in use (head {}); all others are trusted no more, and their roots never again",
            turned.version,
            turned.domain.word(),
            turned.head
        ));
        let lost = lost_words(spares);
        self.say(&format!("mandates moved to the spare keys of {} gateway(s){lost}", spares.ready.len()));
        if waits {
            self.say("waiting until every node is back under it");
        }
    }
}

fn last(finished: Timestamp, active: u64) -> String {
    format!("the last rotation finished at {finished} with version {active}")
}

fn in_words(news: &News) -> String {
    match news {
        News::Another { finished, active } => format!("{}; this begins another", last(*finished, *active)),
        News::HandingOut { active } => {
            format!("version {active} is in use; a new root is to be handed out beside it")
        }
        News::HandedOut { version, active, waits } => {
            let beside = active.map(|active| format!(" beside version {active}, which is in use")).unwrap_or_default();
            let waiting = if *waits { "; waiting until every node has it" } else { "" };
            format!("version {version} is handed out{beside}{waiting}")
        }
        News::Adopted { others, waits } => {
            let all = if *others { "every other node has it" } else { "every node has it" };
            let waiting = if *waits { "; waiting until their certificates lead to its root, too" } else { "" };
            format!("{all}{waiting}")
        }
        News::Resting { active, version, until } => {
            format!("version {active} is in use; version {version} is trusted beside it until {until}")
        }
        News::Retiring { version } => {
            format!("the grace of version {version} is over, and nobody would break without it")
        }
        News::Done { active } => {
            format!("version {active} is in use, and nothing else is trusted: the rotation is done")
        }
        News::Back(turned) => rollback::in_words(turned),
        News::Unserved => "no gateway serves here, so nobody hears of it now: freehold serve".to_owned(),
    }
}

fn old(OldSpare { gateway, since }: &OldSpare, why: &str) -> String {
    format!(
        "`{gateway}` {why}: its spare key lies there since {since} or longer. Whoever has had that machine, its disk or its \
         backup since then has it; leave it out: --without {gateway}"
    )
}

fn lost_words(spares: &Spares) -> String {
    if spares.lost.is_empty() {
        return String::new();
    }
    let names: Vec<_> = spares.lost.iter().map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    format!(
        "; {names} cannot issue any more, for the key of its mandate is revoked: remove each; under another name its machine can become \
         a gateway again"
    )
}
