//! What several commands of one operator write.

use identity::head::{Cause, Head, Revocations};
use identity::id::sha256;
use identity::key::{EdKey, Sign as _};
use identity::signers::{Quorum, Recovery, Signer};
use identity::text::Bytes;
use identity::time::Seconds;
use org::founding::{Founding, FoundingRecord};

use super::*;

const NOW: Timestamp = Timestamp::from_unix(1_800_000_000);

fn key(name: &str) -> EdKey {
    EdKey::from_seed(&sha256(name.as_bytes()))
}

fn quorum(name: &str) -> Quorum {
    Quorum::new(1, vec![Signer { name: name.parse().unwrap(), key: key(name).public() }]).unwrap()
}

/// The org `harbor`, in which `ann` signs.
fn founding() -> Founding {
    let record = FoundingRecord {
        name: "harbor".parse().unwrap(),
        founded_at: NOW,
        identity_root: Bytes(vec![1]),
        endpoint_root: Bytes(vec![2]),
        signers: quorum("ann"),
        recovery: quorum("safe"),
        recovery_delay: Seconds::DAY,
    };
    Founding::open(Envelope::seal(None, &record).unwrap().signed(&key("ann")).unwrap()).unwrap()
}

fn head(founding: &Founding, version: u64) -> Envelope {
    let body = Head {
        version,
        reverts: None,
        cause: Cause::Founding,
        issued_at: NOW,
        fresh_until: NOW + Seconds::DAY,
        members: None,
        previous: Vec::new(),
        recent: Vec::new(),
        record: std::collections::BTreeMap::new(),
        mandates: Vec::new(),
        placements: Vec::new(),
        revocations: Revocations::default(),
        trust: Vec::new(),
        signers: founding.first_signers().as_ref(),
        release: None,
        fleet: None,
    };
    Envelope::seal(Some(founding.id), &body).unwrap().signed(&key("ann")).unwrap()
}

fn recovery(founding: &Founding, to: &str) -> Envelope {
    let (previous, quorum) = (founding.first_signers().id, quorum(to));
    let body = Recovery { version: 2, previous, quorum, head: None, settles: false, at: NOW };
    Envelope::seal(Some(founding.id), &body).unwrap().signed(&key("safe")).unwrap()
}

#[test]
fn what_another_command_noticed_meanwhile_is_kept_with_the_later_head_whoever_writes_last() {
    let root = tempfile::tempdir().unwrap();
    let folder = OperatorFolder::at(root.path(), &"harbor".parse().unwrap());
    file::make_private_folder(&folder.path(REPLICA)).unwrap();
    let founding = founding();
    let known = Known::new(founding.clone(), &[], &head(&founding, 1)).unwrap();
    let later = known.advance(&[], Some(&head(&founding, 2)), NOW).unwrap();
    let noticed = known.notice(&recovery(&founding, "zoe"), NOW).unwrap();
    for (first, last) in [(&noticed, &later), (&later, &noticed)] {
        folder.save_known(first).unwrap();
        let kept = folder.keep_known(last.clone(), &folder.lock_files().unwrap()).unwrap();
        for kept in [kept, folder.known().unwrap()] {
            assert_eq!((kept.head.head.version, kept.alarms().len()), (2, 1));
        }
    }
    // Two of them that two commands noticed at once.
    let other = known.notice(&recovery(&founding, "yan"), NOW).unwrap();
    let kept = folder.keep_known(other, &folder.lock_files().unwrap()).unwrap();
    assert_eq!((kept.head.head.version, kept.alarms().len()), (2, 2));
}
