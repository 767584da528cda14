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

    pub fn pin_source(&self) -> Option<&Path> {
        self.pin_source.as_deref()
    }

    /// A module is code: nobody but root or this user may have written it.
    pub fn check_module(&self) -> Result<(), String> {
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<TokenUri, BadUri> {
        text.parse()
    }

    #[test]
    fn a_uri_names_one_key_of_one_token() {
        let text = "pkcs11:token=My%20token;serial=00AB;manufacturer=Ed%26Co;model=X1;object=ann;id=%01%fF;type=private\
                    ?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/pin";
        let uri = parse(text).unwrap();
        assert_eq!(uri.to_string(), text);
        assert_eq!(uri.pin_source(), Some(Path::new("/run/pin")));
        let some = |text: &str| Some(text.to_owned());
        let wanted = Wanted {
            module: "/usr/lib/softhsm/libsofthsm2.so".into(),
            token: some("My token"),
            manufacturer: some("Ed&Co"),
            model: some("X1"),
            serial: some("00AB"),
            object: some("ann"),
            id: Some(Bytes(vec![1, 255])),
        };
        assert_eq!(*uri.wanted(), wanted);
        let json = serde_json::to_string(&uri).unwrap();
        assert_eq!(serde_json::from_str::<TokenUri>(&json).unwrap(), uri);
        let short = parse("pkcs11:?module-path=/m.so&pin-source=file:///run/pin").unwrap();
        assert_eq!(short.wanted().token, None);
        assert_eq!(short.pin_source(), Some(Path::new("/run/pin")));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let module = "?module-path=/m.so";
        let unknown = |name: &str| Err(BadUri::Unknown(name.to_owned()));
        let malformed = |piece: &str| Err(BadUri::Malformed(piece.to_owned()));
        let table = [
            (String::new(), Err(BadUri::NotPkcs11)),
            ("PKCS11:token=a".to_owned(), Err(BadUri::NotPkcs11)),
            ("pkcs11:".to_owned(), Err(BadUri::NoModule)),
            ("pkcs11:token=a".to_owned(), Err(BadUri::NoModule)),
            (format!("pkcs11:token=a;token=b{module}"), Err(BadUri::Twice("token".to_owned()))),
            (format!("pkcs11:token=a{module}&module-path=/n.so"), Err(BadUri::Twice("module-path".to_owned()))),
            (format!("pkcs11:x-vendor=1{module}"), unknown("x-vendor")),
            (format!("pkcs11:slot-id=1{module}"), unknown("slot-id")),
            (format!("pkcs11:library-version=3{module}"), unknown("library-version")),
            ("pkcs11:token=a?module-name=softhsm2".to_owned(), unknown("module-name")),
            (format!("pkcs11:token=a{module}&x-vendor=1"), unknown("x-vendor")),
            (format!("pkcs11:token=a{module}&pin-value=1234"), Err(BadUri::PinValue)),
            (format!("pkcs11:pin-value=1234{module}"), Err(BadUri::PinValue)),
            (format!("pkcs11:token=a{module}&pin-source=/run/pin"), Err(BadUri::PinSource)),
            (format!("pkcs11:token=a{module}&pin-source=|askpin"), Err(BadUri::PinSource)),
            (format!("pkcs11:token=a{module}&pin-source=file:pin"), Err(BadUri::NotAbsolute("pin-source"))),
            ("pkcs11:token=a?module-path=m.so".to_owned(), Err(BadUri::NotAbsolute("module-path"))),
            (format!("pkcs11:type=public{module}"), Err(BadUri::Type)),
            (format!("pkcs11:token{module}"), malformed("token")),
            (format!("pkcs11:token={module}"), malformed("token=")),
            (format!("pkcs11:=a{module}"), malformed("=a")),
            (format!("pkcs11:token=a;{module}"), malformed("")),
            (format!("pkcs11:token=%4{module}"), malformed("token=%4")),
            (format!("pkcs11:token=%zz{module}"), malformed("token=%zz")),
            (format!("pkcs11:token=%ff{module}"), malformed("token=%ff")),
            (format!("pkcs11:token=a%00{module}"), malformed("token=a%00")),
            (format!("pkcs11:token=a b{module}"), malformed("token=a b")),
            (format!("pkcs11:token=ä{module}"), malformed("token=ä")),
            (format!("pkcs11:token=a{module}#part"), malformed("module-path=/m.so#part")),
            (format!("pkcs11:token={}{module}", "a".repeat(3_000)), Err(BadUri::TooLong)),
            (format!("pkcs11:token={}{module}", "a".repeat(600)), malformed(&format!("token={}", "a".repeat(34)))),
        ];
        for (text, expected) in table {
            assert_eq!(parse(&text).map(|uri| uri.to_string()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser_and_what_it_takes_prints_as_it_was(
            pieces in proptest::collection::vec("[a-z%=;&?:/0-9A-F-]{0,12}|token=|;object=|;id=%[0-9a-f]{2}|\\?module-path=/m|\\PC", 0..8)
        ) {
            let text = format!("pkcs11:{}", pieces.concat());
            if let Ok(uri) = parse(&text) {
                prop_assert_eq!(uri.to_string(), text);
                prop_assert!(uri.wanted().module.is_absolute());
            }
        }
    }

    #[test]
    fn a_module_that_others_can_change_is_not_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("module.so");
        std::fs::write(&path, b"").unwrap();
        let uri = parse(&format!("pkcs11:?module-path={}", path.display())).unwrap();
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        set(0o644);
        assert_eq!(uri.check_module(), Ok(()));
        set(0o666);
        assert!(uri.check_module().unwrap_err().contains("can be changed by other users"));
        std::fs::remove_file(&path).unwrap();
        assert!(uri.check_module().is_err());
    }
}
