//! WebSocket frames (RFC 6455) that carry bytes: cut, put together, and nothing kept but what is left of a header.

use std::cell::Cell;

/// No carrier makes larger ones of what either end sends.
const MAX_FRAME: u64 = 1 << 20;
const MAX_CONTROL: u64 = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    Data,
    Close,
    Ping,
    Pong,
}

/// Who sent the frames that are read: a client masks each of them, a server none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Client,
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    #[error("a frame has a kind that carries no bytes")]
    Kind,
    #[error("a frame asks for an extension that was not agreed on")]
    Extension,
    #[error("a frame is masked where it must not be, or bare where it must be masked")]
    Mask,
    #[error("a frame is too long")]
    TooLong,
    #[error("a frame is not in its turn")]
    OutOfTurn,
}

/// Takes frames apart as their bytes come.
#[derive(Debug)]
pub struct Decoder {
    from: From,
    head: Vec<u8>,
    /// The frame whose header is complete.
    open: Option<Open>,
    /// A message has begun and goes on in the next frame.
    going_on: bool,
    control: Vec<u8>,
    ping: Option<Vec<u8>>,
    closed: bool,
}

#[derive(Debug)]
struct Open {
    kind: FrameKind,
    left: u64,
    mask: [u8; 4],
}

impl Decoder {
    pub const fn new(from: From) -> Self {
        Self { from, head: Vec::new(), open: None, going_on: false, control: Vec::new(), ping: None, closed: false }
    }

    /// Turns these bytes into what they carry, in place: so many bytes of it at their beginning.
    pub fn decode(&mut self, bytes: &mut [u8]) -> Result<usize, BadFrame> {
        let cells = Cell::from_mut(bytes).as_slice_of_cells();
        let (mut to, mut carried) = (cells.iter(), 0);
        for from in cells {
            if self.closed {
                break;
            }
            if let Some(byte) = self.take(from.get())?
                && let Some(to) = to.next()
            {
                to.set(byte);
                carried += 1;
            }
        }
        Ok(carried)
    }

    /// What the last ping that was not answered said.
    pub fn take_ping(&mut self) -> Option<Vec<u8>> {
        self.ping.take()
    }

    /// The other end has said that nothing follows.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    fn take(&mut self, byte: u8) -> Result<Option<u8>, BadFrame> {
        let Some(open) = &mut self.open else {
            self.head.push(byte);
            if let Some(open) = self.read_head()? {
                self.head = Vec::new();
                self.open = Some(open);
                self.finish();
            }
            return Ok(None);
        };
        let byte = byte ^ open.mask[0];
        open.mask.rotate_left(1);
        open.left -= 1;
        let carried = open.kind == FrameKind::Data;
        if !carried {
            self.control.push(byte);
        }
        self.finish();
        Ok(carried.then_some(byte))
    }

    fn finish(&mut self) {
        let Some(open) = self.open.take_if(|open| open.left == 0) else {
            return;
        };
        let said = std::mem::take(&mut self.control);
        match open.kind {
            FrameKind::Data | FrameKind::Pong => {}
            FrameKind::Ping => self.ping = Some(said),
            FrameKind::Close => self.closed = true,
        }
    }

    /// The frame, once its header is complete.
    fn read_head(&mut self) -> Result<Option<Open>, BadFrame> {
        let &[first, second, ref rest @ ..] = self.head.as_slice() else {
            return Ok(None);
        };
        let (last, masked) = (first & 0x80 != 0, second & 0x80 != 0);
        if first & 0x70 != 0 {
            return Err(BadFrame::Extension);
        }
        if masked != (self.from == From::Client) {
            return Err(BadFrame::Mask);
        }
        let Some((length, rest)) = length(second & 0x7f, rest)? else {
            return Ok(None);
        };
        let mask = match rest.first_chunk::<4>() {
            Some(mask) if masked => *mask,
            None if masked => return Ok(None),
            _ => [0; 4],
        };
        let kind = match (first & 0x0f, self.going_on) {
            (0, true) | (2, false) => {
                self.going_on = !last;
                FrameKind::Data
            }
            (0 | 2, _) => return Err(BadFrame::OutOfTurn),
            (8, _) => FrameKind::Close,
            (9, _) => FrameKind::Ping,
            (10, _) => FrameKind::Pong,
            _ => return Err(BadFrame::Kind),
        };
        match kind {
            FrameKind::Data if length > MAX_FRAME => Err(BadFrame::TooLong),
            FrameKind::Close | FrameKind::Ping | FrameKind::Pong if length > MAX_CONTROL || !last => {
                Err(BadFrame::TooLong)
            }
            kind => Ok(Some(Open { kind, left: length, mask })),
        }
    }
}

/// The length of a frame, in its one shortest form, and what follows it.
fn length(short: u8, rest: &[u8]) -> Result<Option<(u64, &[u8])>, BadFrame> {
    let (length, rest, least) = match short {
        126 => match rest.split_first_chunk::<2>() {
            Some((long, rest)) => (u16::from_be_bytes(*long).into(), rest, 126),
            None => return Ok(None),
        },
        127 => match rest.split_first_chunk::<8>() {
            Some((long, rest)) => (u64::from_be_bytes(*long), rest, 1 << 16),
            None => return Ok(None),
        },
        short => (short.into(), rest, 0),
    };
    if length < least { Err(BadFrame::TooLong) } else { Ok(Some((length, rest))) }
}

/// Adds a whole frame; masked, as a client must, or bare.
pub fn encode(out: &mut Vec<u8>, kind: FrameKind, mask: Option<[u8; 4]>, payload: &[u8]) {
    out.push(match kind {
        FrameKind::Data => 0x82,
        FrameKind::Close => 0x88,
        FrameKind::Ping => 0x89,
        FrameKind::Pong => 0x8a,
    });
    let bit = if mask.is_some() { 0x80 } else { 0 };
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..=125), _) => out.push(bit | length),
        (_, Ok(length)) => {
            out.push(bit | 0x7e);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(bit | 0x7f);
            out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    match mask {
        None => out.extend_from_slice(payload),
        Some(mask) => {
            out.extend_from_slice(&mask);
            out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: FrameKind, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out, kind, mask, payload);
        out
    }

    fn decoded(from: From, mut bytes: Vec<u8>) -> Result<Vec<u8>, BadFrame> {
        let carried = Decoder::new(from).decode(&mut bytes)?;
        Ok(bytes[..carried].to_vec())
    }

    #[test]
    fn what_is_carried_comes_out_as_it_went_in() {
        for size in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
            let payload: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).unwrap()).collect();
            let masked = frame(FrameKind::Data, Some([1, 2, 3, 4]), &payload);
            assert_eq!(decoded(From::Client, masked.clone()).as_ref(), Ok(&payload), "{size}");
            let bare = frame(FrameKind::Data, None, &payload);
            assert_eq!(decoded(From::Server, bare.clone()).as_ref(), Ok(&payload), "{size}");
            assert_eq!(decoded(From::Client, bare), Err(BadFrame::Mask), "{size}");
            assert_eq!(decoded(From::Server, masked), Err(BadFrame::Mask), "{size}");
        }
        let example = b"\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58".to_vec();
        assert_eq!(decoded(From::Client, example), Ok(b"Hello".to_vec()), "the example of RFC 6455, 5.7");
    }

    #[test]
    fn frames_may_come_in_any_pieces_with_pings_between() {
        let mut all = frame(FrameKind::Data, Some([9; 4]), b"one ");
        all.extend(frame(FrameKind::Ping, Some([8; 4]), b"there?"));
        all.extend([0x02, 0x81, 0, 0, 0, 0, b't']);
        all.extend(frame(FrameKind::Pong, Some([7; 4]), b""));
        all.extend([0x80, 0x82, 0, 0, 0, 0, b'w', b'o']);
        for size in 1..all.len() {
            let mut decoder = Decoder::new(From::Client);
            let mut carried = Vec::new();
            for piece in all.chunks(size) {
                let mut piece = piece.to_vec();
                let count = decoder.decode(&mut piece).unwrap();
                carried.extend_from_slice(&piece[..count]);
            }
            assert_eq!(carried, b"one two", "{size}");
            assert_eq!((decoder.take_ping().as_deref(), decoder.is_closed()), (Some(b"there?".as_slice()), false));
        }
    }

    #[test]
    fn nothing_follows_a_close() {
        let mut all = frame(FrameKind::Data, None, b"last");
        all.extend(frame(FrameKind::Close, None, &[0x03, 0xe8]));
        all.extend(frame(FrameKind::Data, None, b"more"));
        let mut decoder = Decoder::new(From::Server);
        assert_eq!((decoder.decode(&mut all), decoder.is_closed()), (Ok(4), true));
    }

    #[test]
    fn what_is_no_frame_of_ours_is_refused() {
        for (bytes, why) in [
            (vec![0x81, 1, b'x'], BadFrame::Kind),
            (vec![0x83, 1, b'x'], BadFrame::Kind),
            (vec![0xc2, 1, b'x'], BadFrame::Extension),
            (vec![0x80, 1, b'x'], BadFrame::OutOfTurn),
            (vec![0x02, 1, b'x', 0x82, 1, b'x'], BadFrame::OutOfTurn),
            (vec![0x09, 0], BadFrame::TooLong),
            (vec![0x89, 126, 0, 126], BadFrame::TooLong),
            (vec![0x82, 126, 0, 125], BadFrame::TooLong),
            (vec![0x82, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff], BadFrame::TooLong),
            (vec![0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 1], BadFrame::TooLong),
            (vec![0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0], BadFrame::TooLong),
        ] {
            assert_eq!(decoded(From::Server, bytes.clone()), Err(why), "{bytes:x?}");
        }
    }
}
