//! What several commands of one operator write.

use identity::head::Head;
use identity::signers::Recovery;
use org::founding::Founding;
use trials::scene::{NOW, first_head, founding, quorum, sealed};

use super::*;

fn head(founding: &Founding, version: u64) -> Envelope {
    sealed(founding, &Head { version, ..first_head(founding.first_signers().as_ref()) }, "ann")
}

fn recovery(founding: &Founding, to: &str) -> Envelope {
    let (previous, quorum) = (founding.first_signers().id, quorum(to));
    let body = Recovery { version: 2, previous, quorum, head: None, settles: false, at: NOW };
    sealed(founding, &body, "safe")
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
