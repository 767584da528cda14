//! The words of SOCKS version 5 (RFC 1928), and of its user and password (RFC 1929), read from bytes and written to them.
//!
//! Each reader says what it found, or how many bytes more it must see; never more than the words have, so that what a
//! program sends right behind them stays in its socket.

use std::net::IpAddr;

use zeroize::Zeroizing;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;

/// What was read so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<T> {
    /// At least so many bytes more belong to the words.
    More(usize),
    /// The bytes are the words, to the last one.
    Whole(T),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadWords {
    #[error("it does not speak SOCKS version 5")]
    Version,
    #[error("it sent words that cannot be read")]
    Malformed,
    #[error("it wants an address of an unknown kind")]
    AddressKind,
}

/// How a program may show for whom it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    pub nothing: bool,
    pub password: bool,
}

/// The answer to a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocksMethod {
    Nothing,
    Password,
    /// None of those that it knows will do.
    Unfit,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: Zeroizing<Vec<u8>>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksRequest {
    /// To connect is all that is done here.
    pub connect: bool,
    pub to: SocksAddress,
    pub port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksAddress {
    Address(IpAddr),
    /// As it was written; what is no text is replaced, and is no name then.
    Name(String),
}

/// | code | here |
/// |---|---|
/// | 0 | the stream is open |
/// | 1 | too much is open already, or it is not told why |
/// | 2 | this principal may not, here or there; the name is not one of this org; an address instead of a name |
/// | 3 | there is no way to the node |
/// | 4 | there is no such service, or the name cannot be read |
/// | 5 | the service does not accept connections |
/// | 6 | it took too long |
/// | 7 | BIND and UDP ASSOCIATE: only CONNECT is served |
/// | 8 | an address of an unknown kind |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocksReply {
    Open,
    Failed,
    NotAllowed,
    NoWay,
    NoHost,
    Refused,
    TimedOut,
    NotACommand,
    NotAnAddress,
}

impl SocksReply {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Failed => 1,
            Self::NotAllowed => 2,
            Self::NoWay => 3,
            Self::NoHost => 4,
            Self::Refused => 5,
            Self::TimedOut => 6,
            Self::NotACommand => 7,
            Self::NotAnAddress => 8,
        }
    }

    /// Where the connection comes from on the far side is nobody's business: zeros, as the protocol allows.
    pub(crate) const fn bytes(self) -> [u8; 10] {
        [VERSION, self.code(), 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

impl SocksMethod {
    pub(crate) const fn bytes(self) -> [u8; 2] {
        let code = match self {
            Self::Nothing => 0,
            Self::Password => 2,
            Self::Unfit => 0xff,
        };
        [VERSION, code]
    }
}

/// The answer to a login.
pub(crate) const fn login_answer(good: bool) -> [u8; 2] {
    [PASSWORD_VERSION, if good { 0 } else { 1 }]
}

pub fn greeting(bytes: &[u8]) -> Result<Parsed<Greeting>, BadWords> {
    let mut words = Words(bytes);
    if words.byte().is_some_and(|version| version != VERSION) {
        return Err(BadWords::Version);
    }
    let Some(count) = words.byte() else {
        return Ok(Parsed::More(2 - bytes.len()));
    };
    if count == 0 {
        return Err(BadWords::Malformed);
    }
    let Some(methods) = words.take(count.into()) else {
        return Ok(Parsed::More(words.missing(count.into())));
    };
    words.whole(Greeting { nothing: methods.contains(&0), password: methods.contains(&2) })
}

pub fn login(bytes: &[u8]) -> Result<Parsed<Login>, BadWords> {
    let mut words = Words(bytes);
    if words.byte().is_some_and(|version| version != PASSWORD_VERSION) {
        return Err(BadWords::Version);
    }
    let Some(user_length) = words.byte().map(usize::from) else {
        return Ok(Parsed::More(2 - bytes.len()));
    };
    // The length of the password follows in any case.
    let Some(user) = words.take(user_length) else {
        return Ok(Parsed::More(words.missing(user_length + 1)));
    };
    let Some(length) = words.byte().map(usize::from) else {
        return Ok(Parsed::More(1));
    };
    let Some(password) = words.take(length) else {
        return Ok(Parsed::More(words.missing(length)));
    };
    let user = String::from_utf8(user.to_vec()).map_err(|_| BadWords::Malformed)?;
    words.whole(Login { user, password: Zeroizing::new(password.to_vec()) })
}

pub fn request(bytes: &[u8]) -> Result<Parsed<SocksRequest>, BadWords> {
    let mut words = Words(bytes);
    if words.byte().is_some_and(|version| version != VERSION) {
        return Err(BadWords::Version);
    }
    // One byte further than the kind of address: the length of a name, or the beginning of an address.
    let (Some(command), Some(reserved), Some(kind), Some(first)) =
        (words.byte(), words.byte(), words.byte(), words.peek())
    else {
        return Ok(Parsed::More(5_usize.saturating_sub(bytes.len())));
    };
    if reserved != 0 {
        return Err(BadWords::Malformed);
    }
    let length = match kind {
        1 => 4,
        3 => 1 + usize::from(first),
        4 => 16,
        _ => return Err(BadWords::AddressKind),
    };
    let Some((address, port)) = words.take(length + 2).and_then(|rest| rest.split_last_chunk::<2>()) else {
        return Ok(Parsed::More(words.missing(length + 2)));
    };
    let to = if let Ok(v4) = <[u8; 4]>::try_from(address)
        && kind == 1
    {
        SocksAddress::Address(IpAddr::from(v4))
    } else if let Ok(v6) = <[u8; 16]>::try_from(address)
        && kind == 4
    {
        SocksAddress::Address(IpAddr::from(v6).to_canonical())
    } else {
        let name = address.get(1..).filter(|name| !name.is_empty()).ok_or(BadWords::Malformed)?;
        SocksAddress::Name(String::from_utf8_lossy(name).into_owned())
    };
    words.whole(SocksRequest { connect: command == CONNECT, to, port: u16::from_be_bytes(*port) })
}

/// What is left to be read.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    const fn byte(&mut self) -> Option<u8> {
        let Some((first, rest)) = self.0.split_first() else {
            return None;
        };
        self.0 = rest;
        Some(*first)
    }

    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    const fn missing(&self, count: usize) -> usize {
        count - self.0.len()
    }

    fn whole<T>(&self, value: T) -> Result<Parsed<T>, BadWords> {
        if self.0.is_empty() { Ok(Parsed::Whole(value)) } else { Err(BadWords::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found<T> = Result<Option<T>, BadWords>;
    type Asked = (bool, SocksAddress, u16);

    /// Reads as a socket does: exactly so many bytes as are asked for. Says how many were read.
    fn feed<T>(parse: fn(&[u8]) -> Result<Parsed<T>, BadWords>, bytes: &[u8]) -> (usize, Found<T>) {
        let mut have = 0;
        loop {
            match parse(&bytes[..have]) {
                Err(why) => return (have, Err(why)),
                Ok(Parsed::Whole(value)) => return (have, Ok(Some(value))),
                Ok(Parsed::More(more)) if have + more > bytes.len() => return (have, Ok(None)),
                Ok(Parsed::More(more)) => {
                    assert!(more > 0);
                    have += more;
                }
            }
        }
    }

    #[test]
    fn greetings_are_read_to_their_last_byte_and_no_further() {
        let cases: [(&[u8], usize, Found<Greeting>); 8] = [
            (&[5, 1, 0, b'G'], 3, Ok(Some(Greeting { nothing: true, password: false }))),
            (&[5, 3, 0, 1, 2], 5, Ok(Some(Greeting { nothing: true, password: true }))),
            (&[5, 1, 1], 3, Ok(Some(Greeting { nothing: false, password: false }))),
            (&[5], 0, Ok(None)),
            (&[5, 2, 0], 2, Ok(None)),
            (&[5, 0, 5], 2, Err(BadWords::Malformed)),
            (&[4, 1, 0, 80], 2, Err(BadWords::Version)),
            (b"GET / HTTP/1.1", 2, Err(BadWords::Version)),
        ];
        for (bytes, used, expected) in cases {
            assert_eq!(feed(greeting, bytes), (used, expected), "{bytes:?}");
        }
    }

    #[test]
    fn logins_are_read() {
        let read =
            |bytes: &[u8]| feed(login, bytes).1.map(|login| login.map(|login| (login.user, login.password.to_vec())));
        assert_eq!(read(b"\x01\x05alice\x03sea"), Ok(Some(("alice".to_owned(), b"sea".to_vec()))));
        assert_eq!(read(b"\x01\x00\x00"), Ok(Some((String::new(), Vec::new()))));
        assert_eq!(read(b"\x01\x05alice"), Ok(None));
        assert_eq!(read(b"\x05\x05alice\x03sea"), Err(BadWords::Version));
        assert_eq!(read(b"\x01\x01\xff\x00"), Err(BadWords::Malformed));
        let shown = format!("{:?}", feed(login, b"\x01\x05alice\x03sea").1);
        assert!(shown.contains("alice") && !shown.contains("115"), "{shown}");
    }

    #[test]
    fn requests_are_read() {
        let long = [&[5, 1, 0, 3, 255][..], &[b'a'; 255], &[0, 80]].concat();
        let name = |name: &str| SocksAddress::Name(name.to_owned());
        let cases: [(&[u8], Found<Asked>); 11] = [
            (b"\x05\x01\x00\x03\x04wiki\x00\x50rest", Ok(Some((true, name("wiki"), 80)))),
            (
                &[5, 1, 0, 1, 127, 64, 1, 2, 1, 187],
                Ok(Some((true, SocksAddress::Address([127, 64, 1, 2].into()), 443))),
            ),
            (
                &[5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 64, 1, 2, 0, 1],
                Ok(Some((true, SocksAddress::Address([127, 64, 1, 2].into()), 1))),
            ),
            (b"\x05\x02\x00\x03\x01a\x00\x00", Ok(Some((false, name("a"), 0)))),
            (
                b"\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00",
                Ok(Some((false, SocksAddress::Address([0, 0, 0, 0].into()), 0))),
            ),
            (b"\x05\x01\x00\x03\x01\xff\x00\x50", Ok(Some((true, name("\u{fffd}"), 80)))),
            (&long, Ok(Some((true, SocksAddress::Name("a".repeat(255)), 80)))),
            (b"\x05\x01\x00\x03\x00\x00\x50", Err(BadWords::Malformed)),
            (b"\x05\x01\x01\x03\x01a\x00\x50", Err(BadWords::Malformed)),
            (b"\x05\x01\x00\x02\x01a\x00\x50", Err(BadWords::AddressKind)),
            (b"\x05\x01\x00\x03\x04wik", Ok(None)),
        ];
        for (bytes, expected) in cases {
            let found = feed(request, bytes).1.map(|found| found.map(|found| (found.connect, found.to, found.port)));
            assert_eq!(found, expected, "{bytes:?}");
        }
    }
}
