//! A machine asks to be a gateway: both its keys sign, and nothing else is taken.

use identity::certificate;
use identity::envelope::Envelope;
use identity::id::OrgId;
use identity::key::{EdKey, P256Key, Sign as _};
use identity::text::Bytes;
use identity::time::Timestamp;

use crate::gateway::{BadGatewayRequest, CheckedRequest, GatewayRequest};

/// A key for each number, always the same.
fn machine(n: u8) -> P256Key {
    testorg::machine_key([n.max(1); 32])
}

const ORG: OrgId = OrgId([7; 32]);

fn asked(change: impl FnOnce(&mut GatewayRequest)) -> (GatewayRequest, P256Key, EdKey) {
    let (node, voice) = (machine(1), EdKey::from_seed(&[2; 32]));
    let csr = |seed| Bytes(certificate::make_request(&machine(seed)).unwrap());
    let mut request = GatewayRequest {
        node: "vps".parse().unwrap(),
        node_key: node.public(),
        voice: voice.public(),
        identity: csr(3),
        endpoint: csr(4),
        hosts: vec!["vps.example".parse().unwrap()],
        addresses: vec!["vps.example:7443".parse().unwrap()],
        at: Timestamp::from_unix(1_000_000),
    };
    change(&mut request);
    (request, node, voice)
}

#[test]
fn a_request_needs_the_node_key_and_the_voice() {
    let (request, node, voice) = asked(|_| {});
    let bare = Envelope::seal(Some(ORG), &request).unwrap();
    let one = bare.clone().signed(&node).unwrap();
    assert!(CheckedRequest::open(ORG, &one).is_err(), "the voice did not sign");
    assert!(CheckedRequest::open(ORG, &bare.signed(&voice).unwrap()).is_err(), "the node did not sign");
    let both = one.signed(&voice).unwrap();
    assert_eq!(CheckedRequest::open(ORG, &both).unwrap().request, request);
    assert!(CheckedRequest::open(OrgId([8; 32]), &both).is_err(), "another org's");
}

#[test]
fn two_keys_and_one_to_sixteen_addresses() {
    let open = |change: fn(&mut GatewayRequest)| {
        let (request, node, voice) = asked(change);
        let sealed = Envelope::seal(Some(ORG), &request).unwrap().signed(&node).unwrap().signed(&voice).unwrap();
        CheckedRequest::open(ORG, &sealed).map(drop)
    };
    assert_eq!(open(|_| {}), Ok(()));
    assert_eq!(open(|it| it.endpoint = it.identity.clone()), Err(BadGatewayRequest::SameKey));
    assert_eq!(open(|it| it.addresses.clear()), Err(BadGatewayRequest::Addresses));
    assert_eq!(open(|it| it.hosts.clear()), Err(BadGatewayRequest::Addresses));
    assert_eq!(open(|it| it.addresses = vec![it.addresses[0].clone(); 17]), Err(BadGatewayRequest::Addresses));
    let certificate = open(|it| it.identity = Bytes(vec![0; 40]));
    assert!(matches!(certificate, Err(BadGatewayRequest::Certificate(_))));
}
