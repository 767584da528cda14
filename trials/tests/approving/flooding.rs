//! Whoever holds a code can make claims as fast as keys: how many wait is bounded, and waiting is not failing.

use trials::joiner::{Ground, Joiner};
use trials::place::{Place, succeeded};
use trials::stranger::Dial;
use wire::permit::Ask;

use super::{human, waiting};

const MOST_PER_INVITE: usize = 256;

#[test]
fn so_many_wait_under_one_invite_and_no_more() {
    let place = Place::founded(&[]);
    let _gateway = place.serve();
    let code = human(&place, &["--uses", "unlimited"]);
    let knock = |joiner: &Joiner| {
        let mut line = Dial::to(place.port).line();
        let ground = Ground::on(&mut line);
        line.code(Ask::Enroll, &joiner.request(ground))
    };
    let crowd: Vec<Joiner> = (0..MOST_PER_INVITE).map(|n| Joiner::new(&code, &format!("web-{n}"))).collect();
    for joiner in &crowd {
        assert_eq!(knock(joiner), "awaiting_approval", "{}", joiner.name);
    }
    let late = Joiner::new(&code, "late");
    assert_eq!(knock(&late), "too_many_waiting");
    assert_eq!(knock(&crowd[0]), "awaiting_approval", "who waits already may ask again");
    assert_eq!(waiting(&place).len(), MOST_PER_INVITE);
    let other = Joiner::new(&human(&place, &[]), "other");
    assert_eq!(knock(&other), "awaiting_approval", "another invite has room");
    succeeded(&place.freehold(&["node", "deny", "web-7", "--yes"]));
    assert_eq!(knock(&crowd[7]), "denied");
    assert_eq!(knock(&late), "awaiting_approval", "a no makes room");
}
