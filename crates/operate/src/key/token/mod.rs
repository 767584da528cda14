//! A signer key on a hardware token (HSM, PKCS#11): named by a URI, reached through a program of its own, checked each
//! time.

pub mod uri;
pub(crate) mod helper;

use std::sync::{Mutex, PoisonError};

use ground::passphrase::{NoPassphrase, Passphrase};
use ground::random::{self, NoRandomness};
use ground::secret::Secret;
use ground::token::{Request, TokenAnswer, Trouble};
use identity::key::{BadKey, BadSignature, PublicKey, Sign};
use identity::text::Bytes;
use serde::{Deserialize, Serialize};

use crate::key::token::helper::{Helper, HelperError};
use crate::key::token::uri::TokenUri;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error(transparent)]
    Helper(#[from] HelperError),
    #[error("the token's PIN is not known")]
    Pin(#[from] NoPassphrase),
    #[error("{why}")]
    Failed { trouble: Trouble, why: String },
    #[error("the token's key is {found}, not {expected}")]
    OtherKey { expected: Box<PublicKey>, found: Box<PublicKey> },
    #[error("the token signed, but not with the key that it shows")]
    Forged(#[from] BadSignature),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("to make a key, the URI must name it: object=NAME, id=ID, or both")]
    Unnamed,
}

impl TokenError {
    /// What to do about it, where something can be done.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Helper(HelperError::NotFound) => Some("install freehold-pkcs11 beside freehold, or on the PATH"),
            Self::Pin(_) => Some("run this at a terminal, or name a private file in the URI: pin-source=file:/path"),
            Self::Failed { trouble, .. } => match trouble {
                Trouble::NoModule => Some("name your vendor's module in the URI: ?module-path=/path/to/module.so"),
                Trouble::NoToken => Some("see what there is: pkcs11-tool --module MODULE --list-slots"),
                Trouble::SeveralTokens => Some("say which in the URI: token=LABEL or serial=NUMBER"),
                Trouble::NoKey => Some("see what there is: pkcs11-tool --module MODULE --login --list-objects"),
                Trouble::SeveralKeys => Some("say which in the URI: object=LABEL or id=%01"),
                Trouble::AlreadyThere => Some("use it without --generate, or name another: object=LABEL"),
                Trouble::WrongPin => Some("tokens lock their PIN after a few wrong ones: be sure before you try again"),
                Trouble::PinLocked => Some("unlock it with the vendor's tool and its unlocking code"),
                Trouble::Other => None,
            },
            Self::Unnamed => Some("for example: pkcs11:token=LABEL;object=freehold?module-path=/path/to/module.so"),
            Self::Helper(_) | Self::OtherKey { .. } | Self::Forged(_) | Self::NoRandomness(_) => None,
        }
    }
}

/// A token's key, as it lies in the operator's folder: `signers/NAME.token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenFile {
    pub schema: u32,
    pub uri: TokenUri,
    pub key: PublicKey,
}

/// The key that a token holds. It must prove that it can sign with it.
pub fn describe(uri: &TokenUri, ask_pin: impl AskPin) -> Result<PublicKey, TokenError> {
    TokenKey::reach(uri, ask_pin, false)?.proven()
}

/// Makes a key on the token, which cannot leave it.
pub fn generate(uri: &TokenUri, ask_pin: impl AskPin) -> Result<PublicKey, TokenError> {
    if uri.wanted().object.is_none() && uri.wanted().id.is_none() {
        return Err(TokenError::Unnamed);
    }
    TokenKey::reach(uri, ask_pin, true)?.proven()
}

/// Asks a person for the PIN; it is given what to ask.
pub trait AskPin: FnOnce(&str) -> Result<Passphrase, NoPassphrase> {}
impl<F: FnOnce(&str) -> Result<Passphrase, NoPassphrase>> AskPin for F {}

/// A key on a token that is logged in, for as long as this lives.
#[derive(Debug)]
pub(crate) struct TokenKey {
    helper: Mutex<Helper>,
    public: PublicKey,
}

impl TokenKey {
    /// Logs in, and refuses a token whose key is not the expected one.
    pub(crate) fn open(uri: &TokenUri, expected: PublicKey, ask_pin: impl AskPin) -> Result<Self, TokenError> {
        let key = Self::reach(uri, ask_pin, false)?;
        if key.public == expected {
            return Ok(key);
        }
        Err(TokenError::OtherKey { expected: Box::new(expected), found: Box::new(key.public) })
    }

    fn reach(uri: &TokenUri, ask_pin: impl AskPin, make: bool) -> Result<Self, TokenError> {
        uri.check_module().map_err(|why| TokenError::Failed { trouble: Trouble::NoModule, why })?;
        let mut helper = Helper::start()?;
        let question = |pin: Option<&Passphrase>| {
            let (wanted, pin) = (uri.wanted().clone(), pin.map(|pin| Secret::of(pin.bytes())));
            if make { Request::Generate { wanted, pin } } else { Request::Open { wanted, pin } }
        };
        let answer = match helper.ask(&question(None))? {
            TokenAnswer::PinNeeded { token } => {
                let pin = match uri.pin_source() {
                    Some(path) => Passphrase::from_file(path)?,
                    None => ask_pin(&format!("PIN of the token `{token}`"))?,
                };
                helper.ask(&question(Some(&pin)))?
            }
            answer => answer,
        };
        match answer {
            TokenAnswer::Opened { key } => Ok(Self { helper: Mutex::new(helper), public: key }),
            TokenAnswer::Failed { trouble, why } => Err(TokenError::Failed { trouble, why }),
            TokenAnswer::PinNeeded { .. } | TokenAnswer::Signature(_) => Err(HelperError::OtherAnswer.into()),
        }
    }

    fn proven(&self) -> Result<PublicKey, TokenError> {
        let challenge = [&b"freehold token check v1\0"[..], &random::bytes::<32>()?].concat();
        self.signature(&challenge)?;
        Ok(self.public)
    }

    /// A signature that holds under the public key; others never leave here.
    fn signature(&self, message: &[u8]) -> Result<Vec<u8>, TokenError> {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        match helper.ask(&Request::Sign { message: Bytes(message.to_vec()) })? {
            TokenAnswer::Signature(signature) => {
                self.public.verify(message, &signature.0)?;
                Ok(signature.0)
            }
            TokenAnswer::Failed { trouble, why } => Err(TokenError::Failed { trouble, why }),
            TokenAnswer::Opened { .. } | TokenAnswer::PinNeeded { .. } => Err(HelperError::OtherAnswer.into()),
        }
    }
}

impl Sign for TokenKey {
    fn public(&self) -> PublicKey {
        self.public
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, BadKey> {
        self.signature(message).map_err(|why| BadKey::NotSigned(why.to_string()))
    }
}
