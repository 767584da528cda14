//! The gateway's folder, opened here: the same functions that answer over the network, without the network.

pub mod observer;

use std::future::{Future, ready};
use std::pin::Pin;

use gateway::answer::operator::control;
use gateway::answer::operator::inbox::Asker;
use gateway::gateway::Gateway;
use ground::clock;
use operate::session::desk::home::HomeDesk;
use operate::session::desk::remote::RemoteDesk;
use operate::session::desk::{Answering, Desk, DeskError};
use wire::control::Call;
use wire::known::{BadKnowledge, Known};

use crate::local::observer::ObserverDesk;

#[derive(Debug)]
pub enum AnyDesk {
    Local(Box<Gateway>),
    Remote(Box<RemoteDesk>),
    /// No gateway answers: this home's own copy, to look at.
    Home(Box<HomeDesk>),
    /// A machine with the role `observer`: what replicas exchange.
    Observer(Box<ObserverDesk>),
}

impl AnyDesk {
    /// What the gateway shows to everybody: the newest signers and head that follow what is known here.
    pub async fn newest(&self, known: &Known) -> Result<Known, BadKnowledge> {
        match self {
            Self::Local(gateway) => {
                let state = gateway.state().await;
                let head = state.head().map(|record| &record.envelope);
                known.advance(&state.told_steps(known.signers.version), head, clock::now())
            }
            Self::Remote(desk) => Ok(desk.known().clone().with_sightings_of(known)),
            Self::Home(_) => Ok(known.clone()),
            Self::Observer(desk) => Ok(desk.known().clone().with_sightings_of(known)),
        }
    }
}

impl Desk for AnyDesk {
    fn is_alone(&self) -> bool {
        matches!(self, Self::Home(_) | Self::Observer(_))
    }

    fn brings(&self) -> bool {
        !matches!(self, Self::Home(_))
    }

    fn is_served(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    fn damage(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<String>, DeskError>> + Send + '_>> {
        match self {
            Self::Local(gateway) => Box::pin(async move { Ok(control::damage(gateway).await?) }),
            Self::Remote(_) | Self::Home(_) | Self::Observer(_) => Box::pin(ready(Ok(None))),
        }
    }

    fn ask(&mut self, call: Call) -> Answering<'_> {
        match self {
            Self::Local(gateway) => Box::pin(async move { Ok(control::answer(gateway, call, Asker::Here).await?) }),
            Self::Remote(desk) => desk.ask(call),
            Self::Home(desk) => desk.ask(call),
            Self::Observer(desk) => desk.ask(call),
        }
    }
}
