//! PKCS#11 URIs (RFC 7512): which key on which token. What is not understood is refused, and so are PINs.

use std::fmt;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ground::token::Wanted;
use identity::text::Bytes;
use identity::text_form;

const MAX_URI: usize = 2_048;
const MAX_VALUE: usize = 512;

/// A parsed URI; it prints as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenUri {
    text: String,
    wanted: Wanted,
    pin_source: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUri {
    #[error("a token's URI begins with `pkcs11:`, like pkcs11:token=LABEL;object=NAME?module-path=/path/to/module.so")]
    NotPkcs11,
    #[error("the URI is too long")]
    TooLong,
    #[error("`{0}` is not of the form NAME=VALUE, with %XX for special characters")]
    Malformed(String),
    #[error("`{0}` is named twice")]
    Twice(String),
    #[error(
        "a PIN in a URI would be seen by others: leave out pin-value; you are asked, or name pin-source=file:/path"
    )]
    PinValue,
    #[error(
        "`{0}` is not understood here: use token, serial, manufacturer, model, object, id, module-path, pin-source"
    )]
    Unknown(String),
    #[error("the URI must name the vendor's module: ?module-path=/path/to/module.so")]
    NoModule,
    #[error("`{0}` must be a whole path, from the root")]
    NotAbsolute(&'static str),
    #[error("pin-source must be a file: pin-source=file:/path")]
    PinSource,
    #[error("only private keys sign: type=private, or leave it out")]
    Type,
}

impl TokenUri {
    pub const fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn pin_source(&self) -> Option<&Path> {
        self.pin_source.as_deref()
    }

    /// A module is code: nobody but root or this user may have written it.
    pub(crate) fn check_module(&self) -> Result<(), String> {
        let path = self.wanted.module.display();
        let meta = std::fs::metadata(&self.wanted.module).map_err(|why| format!("the module `{path}`: {why}"))?;
        let ours = [0, rustix::process::geteuid().as_raw()].contains(&meta.uid());
        if !meta.is_file() {
            return Err(format!("the module `{path}` is not a file"));
        }
        if !ours || meta.permissions().mode() & 0o022 != 0 {
            return Err(format!("the module `{path}` can be changed by other users"));
        }
        Ok(())
    }
}

impl FromStr for TokenUri {
    type Err = BadUri;

    fn from_str(text: &str) -> Result<Self, BadUri> {
        if text.len() > MAX_URI {
            return Err(BadUri::TooLong);
        }
        let rest = text.strip_prefix("pkcs11:").ok_or(BadUri::NotPkcs11)?;
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let mut seen = Attributes::default();
        for piece in path.split(';').filter(|_| !path.is_empty()) {
            seen.take_path(piece)?;
        }
        for piece in query.into_iter().flat_map(|query| query.split('&')) {
            seen.take_query(piece)?;
        }
        let wanted = Wanted {
            module: seen.module.ok_or(BadUri::NoModule)?,
            token: seen.token,
            manufacturer: seen.manufacturer,
            model: seen.model,
            serial: seen.serial,
            object: seen.object,
            id: seen.id,
        };
        Ok(Self { text: text.to_owned(), wanted, pin_source: seen.pin_source })
    }
}

impl fmt::Display for TokenUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

text_form!(TokenUri);

#[derive(Default)]
struct Attributes {
    token: Option<String>,
    manufacturer: Option<String>,
    model: Option<String>,
    serial: Option<String>,
    object: Option<String>,
    id: Option<Bytes>,
    kind: Option<String>,
    module: Option<PathBuf>,
    pin_source: Option<PathBuf>,
}

impl Attributes {
    fn take_path(&mut self, piece: &str) -> Result<(), BadUri> {
        let (name, value) = split(piece)?;
        let bytes = decode(value, b"-._~:[]@!$'()*+,=&").ok_or_else(|| BadUri::Malformed(piece.to_owned()))?;
        if name == "id" {
            return once(&mut self.id, name, Bytes(bytes));
        }
        let value = words(bytes).ok_or_else(|| BadUri::Malformed(piece.to_owned()))?;
        match name {
            "token" => once(&mut self.token, name, value),
            "manufacturer" => once(&mut self.manufacturer, name, value),
            "model" => once(&mut self.model, name, value),
            "serial" => once(&mut self.serial, name, value),
            "object" => once(&mut self.object, name, value),
            "type" if value == "private" => once(&mut self.kind, name, value),
            "type" => Err(BadUri::Type),
            // People put it on either side.
            "pin-value" => Err(BadUri::PinValue),
            _ => Err(BadUri::Unknown(shown(name))),
        }
    }

    fn take_query(&mut self, piece: &str) -> Result<(), BadUri> {
        let (name, value) = split(piece)?;
        if name == "pin-value" {
            return Err(BadUri::PinValue);
        }
        let bytes = decode(value, b"-._~:[]@!$'()*+,=/?|").ok_or_else(|| BadUri::Malformed(piece.to_owned()))?;
        let value = words(bytes).ok_or_else(|| BadUri::Malformed(piece.to_owned()))?;
        match name {
            "module-path" => once(&mut self.module, name, absolute("module-path", &value)?),
            "pin-source" => {
                let path = value.strip_prefix("file:").ok_or(BadUri::PinSource)?;
                let path = path.strip_prefix("//").unwrap_or(path);
                once(&mut self.pin_source, name, absolute("pin-source", path)?)
            }
            _ => Err(BadUri::Unknown(shown(name))),
        }
    }
}

fn split(piece: &str) -> Result<(&str, &str), BadUri> {
    let pair = piece.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    pair.filter(|(_, value)| value.len() <= MAX_VALUE).ok_or_else(|| BadUri::Malformed(shown(piece)))
}

/// A piece of what was typed, short enough for an error.
fn shown(piece: &str) -> String {
    piece.chars().take(40).collect()
}

fn once<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), BadUri> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadUri::Twice(name.to_owned())),
    }
}

fn absolute(name: &'static str, path: &str) -> Result<PathBuf, BadUri> {
    let path = PathBuf::from(path);
    if path.is_absolute() { Ok(path) } else { Err(BadUri::NotAbsolute(name)) }
}

/// Text without control characters.
fn words(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// Letters, digits, what the standard allows beside them, and %XX for everything else.
fn decode(value: &str, also: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = value.bytes();
    let mut out = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => out.push(digit(bytes.next()?)? << 4 | digit(bytes.next()?)?),
            byte if byte.is_ascii_alphanumeric() || also.contains(&byte) => out.push(byte),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests;
