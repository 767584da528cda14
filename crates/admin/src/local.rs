//! The gateway's folder, opened here: the same functions that answer over the network, without the network.

use node::answer::control;
use node::answer::gateway::Gateway;
use operate::alone::HomeDesk;
use operate::desk::{Desk, DeskError};
use operate::remote::RemoteDesk;
use wire::control::{Answer, Call};

#[derive(Debug)]
pub enum AnyDesk {
    Local(Box<Gateway>),
    Remote(Box<RemoteDesk>),
    /// No gateway answers: this home's own copy, to look at.
    Home(Box<HomeDesk>),
}

impl Desk for AnyDesk {
    fn is_here(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    fn is_alone(&self) -> bool {
        matches!(self, Self::Home(_))
    }

    async fn ask(&mut self, call: Call) -> Result<Answer, DeskError> {
        match self {
            Self::Local(gateway) => Ok(control::answer(gateway, call).await?),
            Self::Remote(desk) => desk.ask(call).await,
            Self::Home(desk) => desk.ask(call).await,
        }
    }
}
