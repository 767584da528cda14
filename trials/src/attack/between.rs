//! Somebody who stands before a real gateway, with the keys that lie on its disk, and changes what it says to operators.

#![expect(clippy::unwrap_used, reason = "a trial fails by panicking")]

use std::collections::BTreeMap;

use identity::id::Digest;
use serde_json::Value;
use wire::control::{Call, ControlAnswer, Observed, SignedCall};
use wire::permit::Ask;

use crate::attack::impostor::{Impostor, Papers};
use crate::attack::thief::Thief;
use crate::client::stranger::Dial;
use crate::place::Place;

/// Stops when dropped.
#[derive(Debug)]
pub struct Between {
    pub address: String,
    _impostor: Impostor,
    /// Only its port is used.
    _door: Place,
}

impl Between {
    /// Hands each question on to the gateway of this place, and changes the answer. Refusals are handed on as they are.
    pub fn changing(place: &Place, change: impl Fn(ControlAnswer) -> ControlAnswer + Send + 'static) -> Self {
        let (door, thief, port) = (Place::new(), Thief::of(place), place.port);
        let (own, papers) = (thief.endpoint("127.0.0.1"), Papers::of(thief.known()));
        let impostor = Impostor::answering(door.port, &own, papers, move |path, body| {
            if path != Ask::Control.path() {
                return None;
            }
            let signed: SignedCall = serde_json::from_slice(body).unwrap();
            let call: Call = serde_json::from_slice(&signed.call.0).unwrap();
            let told: Value = thief.call(&mut Dial::to(port).line(), &call).body;
            match serde_json::from_value(told.clone()) {
                Ok(answer) => Some(serde_json::to_value(change(answer)).unwrap()),
                Err(_) => Some(told),
            }
        });
        Self { address: door.address(), _impostor: impostor, _door: door }
    }

    /// Changes only what it says that it saw of nodes.
    pub fn about_nodes(place: &Place, change: impl Fn(&mut BTreeMap<Digest, Observed>) + Send + 'static) -> Self {
        Self::changing(place, move |answer| match answer {
            ControlAnswer::Observed { mut nodes, next } => {
                change(&mut nodes);
                ControlAnswer::Observed { nodes, next }
            }
            other => other,
        })
    }
}
