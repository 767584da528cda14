//! A vendor's module: finds one token and one Ed25519 key on it, and lets it sign.

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::eddsa::{EddsaParams, EddsaSignatureScheme};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::{Slot, TokenInfo};
use cryptoki::types::AuthPin;
use ground::random;
use ground::secret::Secret;
use ground::token::{Trouble, Wanted};
use identity::key::PublicKey;
use identity::text::Bytes;

use crate::point;

pub type Failed = (Trouble, String);

/// The token wants a PIN, and has no keys of its own to type it on.
#[derive(Debug)]
pub struct PinNeeded {
    pub token: String,
}

/// A session that is logged in, and the key in it. The session goes before its module.
pub struct Opened {
    session: Session,
    key: ObjectHandle,
    public: PublicKey,
    _module: Pkcs11,
}

pub fn open(wanted: &Wanted, pin: Option<&Secret>, make: bool) -> Result<Result<Opened, PinNeeded>, Failed> {
    let module = load(wanted)?;
    let (slot, info) = find_token(&module, wanted)?;
    if pin.is_none() && info.login_required() && !info.protected_authentication_path() {
        return Ok(Err(PinNeeded { token: info.label().to_owned() }));
    }
    let session = if make { module.open_rw_session(slot) } else { module.open_ro_session(slot) };
    let session = session.map_err(|why| other("the token opens no session", &why))?;
    if info.login_required() {
        log_in(&session, pin)?;
    }
    if make {
        generate(&session, wanted)?;
    }
    let key = find_key(&session, wanted)?;
    let public = public_of(&session, key)?;
    Ok(Ok(Opened { session, key, public, _module: module }))
}

impl Opened {
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failed> {
        let how = Mechanism::Eddsa(EddsaParams::new(EddsaSignatureScheme::Ed25519));
        self.session.sign(&how, self.key, message).map_err(|why| other("the token did not sign", &why))
    }
}

fn load(wanted: &Wanted) -> Result<Pkcs11, Failed> {
    let path = wanted.module.display();
    if cfg!(target_feature = "crt-static") {
        let why = "this freehold-pkcs11 was linked statically, and so it cannot load a module";
        return Err((Trouble::NoModule, why.to_owned()));
    }
    let module = Pkcs11::new(&wanted.module)
        .map_err(|why| (Trouble::NoModule, format!("the module `{path}` cannot be loaded: {why}")))?;
    match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => Ok(module),
        Err(why) => Err((Trouble::NoModule, format!("the module `{path}` does not start: {why}"))),
    }
}

fn find_token(module: &Pkcs11, wanted: &Wanted) -> Result<(Slot, TokenInfo), Failed> {
    let slots = module.get_slots_with_token().map_err(|why| other("the module names no tokens", &why))?;
    let fits = |wish: &Option<String>, is: &str| wish.as_ref().is_none_or(|wish| wish == is);
    let mut found = Vec::new();
    for slot in slots {
        let Ok(info) = module.get_token_info(slot) else {
            continue;
        };
        if info.token_initialized()
            && fits(&wanted.token, info.label())
            && fits(&wanted.serial, info.serial_number())
            && fits(&wanted.manufacturer, info.manufacturer_id())
            && fits(&wanted.model, info.model())
        {
            found.push((slot, info));
        }
    }
    match (found.pop(), found.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err((Trouble::NoToken, "no token fits: is it plugged in?".to_owned())),
        (Some(_), more) => Err((Trouble::SeveralTokens, format!("{} tokens fit", more + 1))),
    }
}

fn log_in(session: &Session, pin: Option<&Secret>) -> Result<(), Failed> {
    let pin = match pin.map(|pin| std::str::from_utf8(&pin.0)) {
        None => None,
        Some(Ok(text)) => Some(AuthPin::from(text)),
        Some(Err(_)) => return Err((Trouble::WrongPin, "the PIN is not text".to_owned())),
    };
    match session.login(UserType::User, pin.as_ref()) {
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
        Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinLenRange | RvError::PinInvalid, _)) => {
            Err((Trouble::WrongPin, "the PIN is wrong".to_owned()))
        }
        Err(Error::Pkcs11(RvError::PinLocked, _)) => {
            Err((Trouble::PinLocked, "the token has locked its PIN after too many wrong ones".to_owned()))
        }
        Err(why) => Err(other("the token does not let us in", &why)),
    }
}

/// What the key is called on the token.
fn names(wanted: &Wanted) -> impl Iterator<Item = Attribute> {
    let label = wanted.object.iter().map(|label| Attribute::Label(label.clone().into_bytes()));
    let id = wanted.id.iter().map(|id| Attribute::Id(id.0.clone()));
    label.chain(id)
}

fn find_key(session: &Session, wanted: &Wanted) -> Result<ObjectHandle, Failed> {
    let keys = private_keys(session, wanted)?;
    match keys.as_slice() {
        [key] => Ok(*key),
        [] => Err((Trouble::NoKey, "the token has no such Ed25519 key".to_owned())),
        several => Err((Trouble::SeveralKeys, format!("{} Ed25519 keys of the token fit", several.len()))),
    }
}

fn private_keys(session: &Session, wanted: &Wanted) -> Result<Vec<ObjectHandle>, Failed> {
    let mut template = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::EC_EDWARDS)];
    template.extend(names(wanted));
    session.find_objects(&template).map_err(|why| other("the token's keys cannot be listed", &why))
}

/// The public half lies beside the private one, under the same id; some tokens have it in the private one too.
fn public_of(session: &Session, key: ObjectHandle) -> Result<PublicKey, Failed> {
    let ids = session.get_attributes(key, &[AttributeType::Id]).unwrap_or_default();
    let mut places = vec![key];
    if let Some(id @ Attribute::Id(bytes)) = ids.first()
        && !bytes.is_empty()
    {
        let kind = [Attribute::Class(ObjectClass::PUBLIC_KEY), Attribute::KeyType(KeyType::EC_EDWARDS), id.clone()];
        places.extend(session.find_objects(&kind).unwrap_or_default());
    }
    let mut found: Vec<PublicKey> = places
        .into_iter()
        .filter_map(|place| session.get_attributes(place, &[AttributeType::EcPoint]).ok())
        .flatten()
        .filter_map(|attribute| match attribute {
            Attribute::EcPoint(bytes) => point::read(&bytes),
            _ => None,
        })
        .collect();
    found.dedup();
    match found.as_slice() {
        [public] => Ok(*public),
        [] => Err((Trouble::NoKey, "the token does not tell the public half of the key".to_owned())),
        _ => Err((Trouble::SeveralKeys, "several public keys lie under the id of the key".to_owned())),
    }
}

/// Makes a key pair that cannot leave the token.
fn generate(session: &Session, wanted: &Wanted) -> Result<(), Failed> {
    if !private_keys(session, wanted)?.is_empty() {
        return Err((Trouble::AlreadyThere, "the token has such a key already".to_owned()));
    }
    // The halves find each other by their id.
    let id = match &wanted.id {
        Some(id) => id.0.clone(),
        None => random::bytes::<16>().map_err(|why| (Trouble::Other, why.to_string()))?.to_vec(),
    };
    let named = Wanted { id: Some(Bytes(id)), ..wanted.clone() };
    let mut last = None;
    for curve in point::CURVES {
        let mut public = vec![
            Attribute::Token(true),
            Attribute::Private(false),
            Attribute::Verify(true),
            Attribute::EcParams(curve.to_vec()),
        ];
        let mut private = vec![
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::Sign(true),
        ];
        public.extend(names(&named));
        private.extend(names(&named));
        match session.generate_key_pair(&Mechanism::EccEdwardsKeyPairGen, &public, &private) {
            Ok(_) => return Ok(()),
            Err(why) => last = Some(other("the token makes no Ed25519 key", &why)),
        }
    }
    Err(last.unwrap_or((Trouble::Other, "the token makes no Ed25519 key".to_owned())))
}

/// The first sentence of what the library says: it explains at length.
fn other(what: &str, why: &Error) -> Failed {
    let why = match why {
        Error::Pkcs11(code, _) => format!("{code:?}"),
        why => why.to_string(),
    };
    (Trouble::Other, format!("{what} ({why})"))
}
