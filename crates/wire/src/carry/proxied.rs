//! The PROXY protocol (versions 1 and 2): what a proxy says, before all else, of whose connection it passes on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _};

const FIRST: &[u8] = b"PROXY ";
const SECOND: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, by its specification.
const MAX_LINE: usize = 107;
/// The longest that is read of version 2 after its first sixteen bytes: addresses, and notes that nobody reads.
const MAX_REST: usize = 4 << 10;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The proxy's own: it looks whether somebody is there.
    Proxy,
    Client(IpAddr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// At least so many bytes more belong to the header.
    More(usize),
    Whole(Whose),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    #[error("the PROXY header is too long")]
    TooLong,
    #[error("the PROXY header is of a version or for a purpose that is not known here")]
    Unknown,
    #[error("the PROXY header cannot be read")]
    Malformed,
}

/// Reads the header and not a byte more.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Whose> {
    let mut header = Vec::new();
    loop {
        match parse(&header).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))? {
            Read::Whole(whose) => return Ok(whose),
            Read::More(count) => {
                let have = header.len();
                header.resize(have + count, 0);
                let rest = header.get_mut(have..).unwrap_or_default();
                stream.read_exact(rest).await?;
            }
        }
    }
}

/// What the bytes so far say. They are never more than the header, if as many are added as is asked for.
pub fn parse(bytes: &[u8]) -> Result<Read, BadHeader> {
    let Some((beginning, rest)) = bytes.split_first_chunk::<12>() else {
        return Ok(Read::More(SECOND.len() - bytes.len()));
    };
    if beginning == SECOND {
        return parse_second(rest);
    }
    if beginning.starts_with(FIRST) { parse_first(bytes) } else { Err(BadHeader::Missing) }
}

fn parse_first(bytes: &[u8]) -> Result<Read, BadHeader> {
    let Some(line) = bytes.strip_suffix(b"\r\n") else {
        let missing = if bytes.ends_with(b"\r") { 1 } else { 2 };
        return if bytes.len() + missing > MAX_LINE { Err(BadHeader::TooLong) } else { Ok(Read::More(missing)) };
    };
    let line = std::str::from_utf8(line).map_err(|_| BadHeader::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next().unwrap_or_default();
    if family == "UNKNOWN" {
        return Ok(Read::Whole(Whose::Proxy));
    }
    let (Some(from), Some(to), Some(from_port), Some(to_port), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BadHeader::Malformed);
    };
    let source: IpAddr = match family {
        "TCP4" => from.parse::<Ipv4Addr>().and(to.parse::<Ipv4Addr>().and(from.parse())).map(IpAddr::V4),
        "TCP6" => from.parse::<Ipv6Addr>().and(to.parse::<Ipv6Addr>().and(from.parse())).map(IpAddr::V6),
        _ => return Err(BadHeader::Unknown),
    }
    .map_err(|_| BadHeader::Malformed)?;
    if from_port.parse::<u16>().and(to_port.parse::<u16>()).is_err() {
        return Err(BadHeader::Malformed);
    }
    Ok(Read::Whole(Whose::Client(source.to_canonical())))
}

fn parse_second(rest: &[u8]) -> Result<Read, BadHeader> {
    let Some((&[command, family, high, low], rest)) = rest.split_first_chunk::<4>() else {
        return Ok(Read::More(4_usize.saturating_sub(rest.len())));
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_REST {
        return Err(BadHeader::TooLong);
    }
    if rest.len() < length {
        return Ok(Read::More(length - rest.len()));
    }
    let source = match (command, family) {
        // The proxy's own, or from where no address is: both are the proxy's to answer for.
        (0x20, _) | (0x21, 0x00) => return Ok(Read::Whole(Whose::Proxy)),
        (0x21, 0x11) => {
            let (source, after) = rest.split_first_chunk::<4>().ok_or(BadHeader::Malformed)?;
            after.first_chunk::<8>().ok_or(BadHeader::Malformed)?;
            IpAddr::from(*source)
        }
        (0x21, 0x21) => {
            let (source, after) = rest.split_first_chunk::<16>().ok_or(BadHeader::Malformed)?;
            after.first_chunk::<20>().ok_or(BadHeader::Malformed)?;
            IpAddr::from(*source)
        }
        _ => return Err(BadHeader::Unknown),
    };
    Ok(Read::Whole(Whose::Client(source.to_canonical())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SECOND.as_slice(), &[command, family], &length, rest].concat()
    }

    fn client(ip: &str) -> Whose {
        Whose::Client(ip.parse().unwrap())
    }

    /// What is read of these bytes and a few that follow; exactly the header may be taken.
    async fn told(bytes: &[u8]) -> Result<Whose, Option<BadHeader>> {
        let all = [bytes, b"\x16\x03\x01"].concat();
        let mut stream = all.as_slice();
        let whose = read(&mut stream).await;
        if whose.is_ok() {
            assert_eq!(stream, b"\x16\x03\x01", "{bytes:x?}");
        }
        whose.map_err(|why| why.get_ref().and_then(|why| why.downcast_ref().copied()))
    }

    #[tokio::test]
    async fn both_versions_say_whose_connection_it_is() {
        assert_eq!(told(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n").await, Ok(client("192.0.2.1")));
        assert_eq!(told(b"PROXY TCP6 2001:db8::1 ::1 65535 2\r\n").await, Ok(client("2001:db8::1")));
        assert_eq!(told(b"PROXY UNKNOWN\r\n").await, Ok(Whose::Proxy));
        assert_eq!(told(b"PROXY UNKNOWN a b c\r\n").await, Ok(Whose::Proxy));
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0, 1, 0, 2];
        assert_eq!(told(&second(0x21, 0x11, &v4)).await, Ok(client("192.0.2.1")));
        let notes = [v4.as_slice(), &[4, 0, 1, 9]].concat();
        assert_eq!(told(&second(0x21, 0x11, &notes)).await, Ok(client("192.0.2.1")));
        let mut v6 = [0; 36];
        v6[10..16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        assert_eq!(told(&second(0x21, 0x21, &v6)).await, Ok(client("10.0.0.1")), "one address, one form");
        assert_eq!(told(&second(0x20, 0x00, &[])).await, Ok(Whose::Proxy));
        assert_eq!(told(&second(0x20, 0x11, &v4)).await, Ok(Whose::Proxy), "LOCAL: what it says is not read");
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused_for_what_it_is() {
        use BadHeader::{Malformed, Missing, TooLong, Unknown};
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat();
        for (bytes, why) in [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc".to_vec(), Missing),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), Missing),
            (b"proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(), Missing),
            (long, TooLong),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 99999\r\n".to_vec(), Malformed),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), Malformed),
            (b"PROXY TCP6 192.0.2.1 ::1 1 2\r\n".to_vec(), Malformed),
            (b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n".to_vec(), Malformed),
            (b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(), Unknown),
            (second(0x21, 0x11, &[1; 11]), Malformed),
            (second(0x21, 0x21, &[1; 35]), Malformed),
            (second(0x21, 0x12, &[1; 12]), Unknown),
            (second(0x21, 0x31, &[1; 216]), Unknown),
            (second(0x22, 0x11, &[1; 12]), Unknown),
            (second(0x11, 0x11, &[1; 12]), Unknown),
            (second(0x21, 0x11, &[1; 5000]), TooLong),
        ] {
            assert_eq!(told(&bytes).await, Err(Some(why)), "{bytes:x?}");
        }
    }
}
