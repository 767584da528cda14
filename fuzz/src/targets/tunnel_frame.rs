//! What comes over a connection between two nodes: frames of words and of bytes. All at once or byte by byte, it says the
//! same, and what was read is written as it was.

use std::sync::LazyLock;

use identity::envelope::Envelope;
use identity::head::Revocations;
use identity::id::Digest;
use identity::members::{Leaf, Listing, Meant, MembersMap, NodeLeaf, node_key};
use org::member::peer::Presented;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tunnel::frame::format::{FrameKind, header, read_header, read_words, words};
use tunnel::frame::reader::{FrameReader, NoFrame};
use wire::peer::{Declined, Hello, News, Open, Opened, SCHEMA};

use crate::cast::{SIGNERS, ed, public};
use crate::harbor::{HARBOR, head};
use crate::pieces::{Pieces, now};

static BY: LazyLock<(Envelope, MembersMap, NodeLeaf)> = LazyLock::new(|| {
    let leaf = NodeLeaf {
        name: "web-1".parse().expect("a name"),
        node_key: public("node-1").digest(),
        admission: Digest([2; 32]),
        manifest: Meant::Own(Digest([3; 32])),
    };
    let map = MembersMap::of(&[Leaf::Node(leaf.clone())]).expect("one key");
    let mut head = head(5, HARBOR.signers(), Revocations::default());
    head.members = Some(map.root());
    let sealed = Envelope::seal(Some(HARBOR.founding.id), &head).expect("sealed");
    (SIGNERS.iter().fold(sealed, |sealed, name| sealed.signed(&ed(name)).expect("signed")), map, leaf)
});

fn hello() -> Hello {
    let (by, map, leaf) = &*BY;
    let path = map.prove(node_key(&leaf.name)).expect("it is there");
    let listing = Some(Listing::Own { leaf: leaf.clone(), path, class: None });
    let presented = Presented { by: by.clone(), listing, admission: None };
    let (digest, rivals) = (by.digest(), Some(Digest([6; 32])));
    Hello { schema: SCHEMA, signers: 1, head: 5, digest, rivals, suspended: Some(by.digest()), presented }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let said = |kind, value: &dyn Fn() -> Vec<u8>| {
        let json = value();
        [header(kind, json.len()).expect("it fits").as_slice(), &json].concat()
    };
    let empty = |kind| header(kind, 0).expect("it fits").to_vec();
    let wiki = || "wiki".parse().expect("a name");
    let introduced = [
        words(FrameKind::Hello, &hello()).expect("it fits"),
        words(
            FrameKind::News,
            &News {
                signers: vec![BY.0.clone()],
                head: Some(BY.0.clone()),
                rivals: vec![BY.0.clone()],
                suspensions: vec![BY.0.clone()],
            },
        )
        .expect("it fits"),
    ];
    let opened = [
        words(FrameKind::Open, &Open::Service(wiki())).expect("it fits"),
        empty(FrameKind::Still),
        words(FrameKind::Opened, &Opened::Yes).expect("it fits"),
        said(FrameKind::Data, &|| vec![7; 300]),
        empty(FrameKind::End),
    ];
    let refused = [
        words(FrameKind::Open, &Open::Through("web-1".parse().expect("a name"))).expect("it fits"),
        words(FrameKind::Opened, &Opened::No(Declined::NotBelieved { why: "no".to_owned() })).expect("it fits"),
        words(FrameKind::Open, &Open::Probe).expect("it fits"),
        words(FrameKind::Open, &Open::Wait).expect("it fits"),
        words(FrameKind::Opened, &Opened::No(Declined::TooOld)).expect("it fits"),
        empty(FrameKind::Broken),
    ];
    vec![introduced.concat(), opened.concat(), refused.concat()]
}

/// Frames, one after the other, to the end.
pub fn check(data: &[u8]) -> bool {
    let whole = run(Pieces::of(data, usize::MAX));
    for size in [1, 3, 1000] {
        assert_eq!(whole, run(Pieces::of(data, size)), "in pieces of {size} it is the same");
    }
    whole.1 == data.len() && !whole.0.is_empty()
}

/// What was read, and how many bytes of it are whole frames that say something.
fn run(from: Pieces<'_>) -> (Vec<(u8, usize)>, usize) {
    let (data, mut frames) = (from.data, FrameReader::new(from));
    let (mut read, mut used) = (Vec::new(), 0);
    while let Ok((kind, length)) = now(frames.next()) {
        let start: [u8; 4] = data[used..used + 4].try_into().expect("a header was read");
        assert_eq!(read_header(start), Ok((kind, length)));
        assert_eq!(header(kind, length), Ok(start), "one header for one kind and length");
        assert!(length <= kind.most(), "nobody makes us keep more");
        let mut body = vec![0; length];
        let mut have = 0;
        while have < length {
            match now(frames.some(&mut body[have..])) {
                Ok(count) => have += count,
                Err(_) => return (read, used),
            }
        }
        assert_eq!(body, data[used + 4..used + 4 + length]);
        if !says(kind, &body) {
            return (read, used);
        }
        read.push((start[0], length));
        used += 4 + length;
    }
    (read, used)
}

fn says(kind: FrameKind, body: &[u8]) -> bool {
    match kind {
        FrameKind::Hello => holds::<Hello>(kind, body),
        FrameKind::News => holds::<News>(kind, body),
        FrameKind::Open => holds::<Open>(kind, body),
        FrameKind::Opened => holds::<Opened>(kind, body),
        FrameKind::Data => true,
        FrameKind::End | FrameKind::Broken | FrameKind::Still => body.is_empty(),
    }
}

/// Words that can be read are written and read again as the same, and by the reader that the tunnel uses.
fn holds<T: Serialize + DeserializeOwned>(kind: FrameKind, body: &[u8]) -> bool {
    let Ok(value) = read_words::<T>(kind, kind, body) else {
        return false;
    };
    let Ok(written) = words(kind, &value) else {
        // A short way to write something may become too long: refused, and never cut off.
        return false;
    };
    let mut frames = FrameReader::new(Pieces::of(&written, 7));
    let again: T = now(frames.words(kind)).expect("our own words");
    assert_eq!(words(kind, &again).expect("it was written before"), written);
    let other = if kind == FrameKind::Open { FrameKind::Opened } else { FrameKind::Open };
    let mut frames = FrameReader::new(Pieces::of(&written, 7));
    assert!(matches!(now(frames.words::<T>(other)), Err(NoFrame::Bad(_))), "nothing is taken for something else");
    true
}
