//! What the tunnel tells the agent: that it obeyed, whom it met, what it heard, where it listens.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use identity::envelope::Envelope;
use identity::members::Listing;
use identity::text::Bytes;
use serde::{Deserialize, Serialize};
use wire::peer::News;

use crate::control::listener::ListenerId;
use crate::control::question::TunnelAnswer;

/// What the tunnel tells the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TunnelEvent {
    /// The order of this number, and all before it, are in force.
    Done(u64),
    /// A peer knows more than was handed in.
    Heard(Box<News>),
    /// A key was seen under a name for the first time, or in another's place.
    Met(Box<Meeting>),
    /// Where it listens, of all that it was to listen at, and what failed.
    Listens { at: BTreeMap<ListenerId, SocketAddr>, failed: BTreeMap<ListenerId, String> },
    /// The answer to the question of this number.
    Shown { number: u64, answer: Box<TunnelAnswer> },
}

/// All that a peer showed, so that whoever hears of it can judge it anew.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Meeting {
    pub chain: Vec<Bytes>,
    /// It called; otherwise it was called.
    pub is_caller: bool,
    /// The head by whose map it is shown; absent if that is the one that was handed in last.
    pub by: Option<Envelope>,
    pub listing: Option<Listing>,
    pub admission: Option<Envelope>,
}
