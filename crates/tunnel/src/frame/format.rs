//! How words and bytes are cut into frames on a connection: one byte for the kind, three for the length, then so many bytes.
//!
//! Over TLS everything goes in frames, one stream at a time, so that a connection can be used again. Over QUIC the words go
//! in frames, and a stream's bytes follow as they are.

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) const HEADER: usize = 4;
/// The most that one frame of a stream's bytes holds: four TLS records with their frame's header.
pub(crate) const DATA: usize = (64 << 10) - HEADER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Hello,
    News,
    Open,
    Opened,
    /// A stream's bytes.
    Data,
    /// This side has no more bytes for the stream. Empty.
    End,
    /// The stream broke off on this side. Empty.
    Broken,
    /// This side lives, and has nothing to say. Empty.
    Still,
}

impl FrameKind {
    const ALL: [Self; 8] =
        [Self::Hello, Self::News, Self::Open, Self::Opened, Self::Data, Self::End, Self::Broken, Self::Still];

    const fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::News => 2,
            Self::Open => 3,
            Self::Opened => 4,
            Self::Data => 5,
            Self::End => 6,
            Self::Broken => 7,
            Self::Still => 8,
        }
    }

    /// Nobody makes this side keep more than that.
    pub const fn most(self) -> usize {
        match self {
            // A head with many revocations, and what else there is.
            Self::Hello => 6 << 20,
            Self::News => 8 << 20,
            Self::Open | Self::Opened => 1 << 10,
            Self::Data => DATA,
            Self::End | Self::Broken | Self::Still => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedFrame {
    #[error("it sent a frame of the unknown kind {0}")]
    Kind(u8),
    #[error("it sent a frame of {length} bytes, which is too long for what it is")]
    TooLong { kind: FrameKind, length: usize },
    #[error("it sent something else than what was to come")]
    OutOfTurn { wanted: FrameKind, found: FrameKind },
    #[error("it says over and over that it lives, and nothing else")]
    Restless,
    #[error("it sent words that cannot be read: {0}")]
    Words(String),
}

pub fn header(kind: FrameKind, length: usize) -> Result<[u8; HEADER], MalformedFrame> {
    let too_long = MalformedFrame::TooLong { kind, length };
    if length > kind.most() {
        return Err(too_long);
    }
    let [0, high, middle, low] = u32::try_from(length).map_err(|_| too_long.clone())?.to_be_bytes() else {
        return Err(too_long);
    };
    Ok([kind.code(), high, middle, low])
}

pub fn read_header(bytes: [u8; HEADER]) -> Result<(FrameKind, usize), MalformedFrame> {
    let [code, high, middle, low] = bytes;
    let kind = FrameKind::ALL.into_iter().find(|kind| kind.code() == code).ok_or(MalformedFrame::Kind(code))?;
    let length = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
    if length > kind.most() { Err(MalformedFrame::TooLong { kind, length }) } else { Ok((kind, length)) }
}

/// A frame of words, ready to be sent.
pub fn words(kind: FrameKind, value: &impl Serialize) -> Result<Vec<u8>, MalformedFrame> {
    let json = serde_json::to_vec(value).map_err(|why| MalformedFrame::Words(why.to_string()))?;
    let mut frame = header(kind, json.len())?.to_vec();
    frame.extend_from_slice(&json);
    Ok(frame)
}

/// The words in a frame of the kind that was to come.
pub fn read_words<T: DeserializeOwned>(wanted: FrameKind, found: FrameKind, body: &[u8]) -> Result<T, MalformedFrame> {
    if wanted != found {
        return Err(MalformedFrame::OutOfTurn { wanted, found });
    }
    serde_json::from_slice(body).map_err(|why| MalformedFrame::Words(why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for kind in FrameKind::ALL {
            for length in [0, 1, 255, 256, 65_532, 65_533, kind.most()] {
                match header(kind, length) {
                    Ok(bytes) => assert_eq!(read_header(bytes), Ok((kind, length))),
                    Err(why) => {
                        assert_eq!((why, length > kind.most()), (MalformedFrame::TooLong { kind, length }, true));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_unknown_or_too_long_is_refused() {
        assert_eq!(read_header([0, 0, 0, 0]), Err(MalformedFrame::Kind(0)));
        assert_eq!(read_header([9, 0, 0, 0]), Err(MalformedFrame::Kind(9)));
        assert_eq!(read_header([6, 0, 0, 1]), Err(MalformedFrame::TooLong { kind: FrameKind::End, length: 1 }));
        assert_eq!(read_header([3, 0, 4, 1]), Err(MalformedFrame::TooLong { kind: FrameKind::Open, length: 1025 }));
    }

    #[test]
    fn words_out_of_turn_are_refused() {
        let found = read_words::<u8>(FrameKind::Open, FrameKind::Opened, b"1");
        assert_eq!(found, Err(MalformedFrame::OutOfTurn { wanted: FrameKind::Open, found: FrameKind::Opened }));
    }
}
