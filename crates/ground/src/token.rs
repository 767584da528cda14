//! The words between `freehold` and `freehold-pkcs11`, which loads a token's module: one line of JSON each way.

use std::path::PathBuf;

use identity::key::PublicKey;
use identity::text::Bytes;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// The largest envelope in base64, and some words around it.
pub const MAX_LINE: usize = identity::envelope::MAX_PAYLOAD / 3 * 4 + (64 << 10);

/// Which key on which token, through which module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub module: PathBuf,
    pub token: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub object: Option<String>,
    pub id: Option<Bytes>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Log in and find the key. Without a PIN it is first learned whether one is needed.
    Open { wanted: Wanted, pin: Option<Secret> },
    /// Log in and make a key that cannot leave the token.
    Generate { wanted: Wanted, pin: Option<Secret> },
    /// Sign with the key that was found or made.
    Sign { message: Bytes },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TokenAnswer {
    Opened { key: PublicKey },
    PinNeeded { token: String },
    Signature(Bytes),
    Failed { trouble: Trouble, why: String },
}

/// What a caller tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    NoModule,
    NoToken,
    SeveralTokens,
    NoKey,
    SeveralKeys,
    AlreadyThere,
    WrongPin,
    PinLocked,
    Other,
}
