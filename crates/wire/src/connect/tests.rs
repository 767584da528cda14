//! Whoever answers where a gateway should, and what is said of it.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// What comes of a call to somebody who answers a TLS greeting with these bytes.
async fn answered_with(bytes: &'static [u8]) -> CallError {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = [0; 1];
        stream.read_exact(&mut heard).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        // Whoever called has hung up.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let expect = Expect::Pin(identity::id::Fingerprint::of_certificate(&[]));
    let why = Provisional::dial(&GatewayAddress::from(address), &expect, None).await.unwrap_err();
    answering.await.unwrap();
    why
}

#[tokio::test]
async fn a_web_server_without_tls_is_no_gateway_and_is_not_asked_again() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        // The alert of a server that speaks no TLS 1.3.
        &[0x15, 3, 3, 0, 2, 2, 70],
        &[0x15, 3, 3, 0, 2, 2, 40],
    ] {
        let why = answered_with(bytes).await;
        assert!(matches!(why, CallError::NotAGateway { .. }), "{why}");
        assert!(why.to_string().contains("is not a gateway") && !why.is_worth_retrying(), "{why}");
    }
}

#[test]
fn a_mandate_out_of_its_time_is_not_said_to_be_another_orgs() {
    let known = crate::scene::known();
    let (now, there) = (known.head.head.issued_at + Seconds::DAY.times(2), known.head.head.issued_at);
    let gateway: NodeName = "quay".parse().unwrap();
    let why = Inactive { gateway: gateway.clone(), from: there, until: there + Seconds::DAY, now };
    let clocks = Clocks::new(now, there, &gateway, &known).apart().map(Box::new);
    let told =
        CallError::NotInForce { address: "127.0.0.1:1".parse().unwrap(), why: Box::new(why), clocks }.to_string();
    assert!(!told.contains("not one of this org's"), "{told}");
    for time in [now, there] {
        assert!(told.contains(&time.to_string()), "both clocks are told: {told}");
    }
    assert!(told.contains("2 days ahead of the gateway's"), "{told}");
}

/// Whichever of two gateways is asked first.
#[test]
fn what_one_gateway_answered_outranks_the_silence_of_another() {
    let address: Address = "127.0.0.1:1".parse().unwrap();
    let silence = || CallError::Silent { address: address.clone() };
    let refused = || CallError::Refused(Refusal::NotAdmitted);
    let foreign = || CallError::NotAGateway { address: address.clone(), why: Foreign::NoKey };
    for (first, second) in
        [(silence(), refused()), (refused(), silence()), (foreign(), refused()), (refused(), foreign())]
    {
        let told = CallError::or_rather(Some(first), second);
        assert!(matches!(told, CallError::Refused(_)), "{told}");
    }
    let told = CallError::or_rather(Some(foreign()), silence());
    assert!(matches!(told, CallError::NotAGateway { .. }), "{told}");
    assert!(matches!(CallError::or_rather(None, silence()), CallError::Silent { .. }));
}
