//! What the agent hands to the tunnel: what is known, who speaks here, who may do what, and what to run.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use identity::id::Digest;
use identity::principal::{HostPort, Name, NodeName, OrgName, Principal};
use identity::text::Bytes;
use manifest::stored::{Access, Listener, TunnelPolicy};
use org::member::peer::Presented;
use org::suspend::suspended::Suspensions;
use serde::{Deserialize, Serialize};
use wire::known::KnownFile;
use zeroize::Zeroize;

use crate::control::listener::ListenerId;
use crate::control::question::TunnelQuestion;

/// What an order may be long at most: tables of a large fleet.
pub const MOST: usize = 256 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbered {
    pub number: u64,
    pub order: Order,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// First of all, and once.
    Be { org: OrgName, node: NodeName },
    /// What is true now, and what this node shows of itself.
    Know(Box<Knowledge>),
    /// The first key that was seen under each of these names: written down, beside those that were said before.
    Pin(BTreeMap<NodeName, Digest>),
    /// For whom it speaks. The node itself is among them.
    Speak(Vec<KeyedSvid>),
    /// Who may call what here. All of them must permit; if there is none, nobody may.
    Allow(Vec<Access>),
    /// What it does.
    Run(Box<TunnelConfig>),
    /// To be answered by `TunnelEvent::Shown`.
    Show(TunnelQuestion),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knowledge {
    pub known: KnownFile,
    /// By how many seconds the clock here is ahead of one that never jumped: delays run by that one.
    #[serde(default)]
    pub ahead: i64,
    /// The identity roots in force, and those that were: only for words.
    pub roots: Vec<Bytes>,
    pub former: Vec<Bytes>,
    /// Since when each suspension is known here.
    #[serde(default)]
    pub suspensions: Suspensions,
    /// Absent while this node was never shown its place.
    pub presented: Option<Presented>,
}

/// An SVID with its key.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedSvid {
    pub principal: Principal,
    pub chain: Vec<Bytes>,
    /// PKCS #8.
    pub key: Bytes,
}

impl std::fmt::Debug for KeyedSvid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedSvid").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Drop for KeyedSvid {
    fn drop(&mut self) {
        self.key.0.zeroize();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunnelConfig {
    /// Where others reach this node.
    pub address: Option<HostPort>,
    pub relay: bool,
    pub policy: TunnelPolicy,
    /// What listens here.
    pub services: BTreeMap<Name, Listener>,
    /// Ports that were bound before: they are wished for again.
    pub ports: BTreeMap<ListenerId, SocketAddr>,
    /// By which a program shows for which user it asks. Digests, so that nothing is to be had here.
    pub passwords: BTreeMap<Name, Digest>,
}
