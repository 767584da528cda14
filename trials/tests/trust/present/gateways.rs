//! Gateways tell each other the keys that they issue with.

use identity::certificate;
use identity::text::Bytes;
use trials::place::{succeeded, until};

use super::Turner;
use crate::gateways::Two;

#[test]
fn each_gateway_answers_for_all_also_for_one_that_is_asleep() {
    let (two, laptop, vps) = Two::serving();
    let turner = Turner::at(&two.place);
    let named = |port| {
        let mut names: Vec<String> = turner.issuers(port).iter().map(|said| said.gateway.to_string()).collect();
        names.sort();
        names
    };
    let vps_port: u16 = two.address().rsplit(':').next().unwrap().parse().unwrap();
    until("both know of both", || [two.place.port, vps_port].iter().all(|port| named(*port) == ["laptop", "vps"]));
    let of_vps = |port| turner.issuers(port).into_iter().find(|said| said.gateway.as_str() == "vps").unwrap();
    let (own, heard) = (of_vps(vps_port), of_vps(two.place.port));
    let key = |request: &Bytes| certificate::read_request(&request.0).unwrap().id;
    assert_eq!((key(&own.spare_identity), own.identity), (key(&heard.spare_identity), heard.identity));

    // Asleep, and the other one started anew.
    vps.kill();
    laptop.kill();
    let _laptop = two.place.serve();
    assert_eq!(named(two.place.port), ["laptop", "vps"]);
    // Whoever has no mandate has no say.
    succeeded(&two.place.freehold(&["gateway", "remove", "vps", "--yes"]));
    assert_eq!(named(two.place.port), ["laptop"]);
}
