//! What a TLS handshake that failed says of whoever answers, in words.

use identity::principal::Address;
use identity::verifier::Untrusted;

use super::reply::Foreign;
use super::{AlertKind, CallError, not_believed};

/// Gateways speak TLS 1.3, and whoever says this does not, or not so.
const fn is_foreign(tls: &rustls::Error) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(
        tls,
        rustls::Error::InvalidMessage(_)
            | rustls::Error::PeerSentOversizedRecord
            | rustls::Error::PeerIncompatible(_)
            | rustls::Error::PeerMisbehaved(_)
            | rustls::Error::AlertReceived(Alert::HandshakeFailure | Alert::ProtocolVersion | Alert::UnrecognisedName)
    )
}

/// Both sides speak TLS, and do not hear what the other said.
const fn is_garbled(tls: &rustls::Error) -> bool {
    use rustls::AlertDescription as Alert;
    matches!(tls, rustls::Error::DecryptError | rustls::Error::AlertReceived(Alert::BadRecordMac | Alert::DecryptError))
}

/// Turns what TLS says into words: our own verifier's reason, or the alert that the gateway sent.
pub(super) fn from_tls(tls: &rustls::Error, address: &Address, own: bool) -> Option<CallError> {
    use rustls::AlertDescription as Alert;
    let address = address.clone();
    match tls {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
            let why = other.0.downcast_ref::<Untrusted>()?.clone();
            Some(not_believed(address, why))
        }
        rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature) => {
            Some(CallError::NotAGateway { address, why: Foreign::NoKey })
        }
        // Directly, something else than a gateway may answer; what a carrier hands on has been a gateway's.
        _ if is_foreign(tls) && address.is_direct() => {
            Some(CallError::NotAGateway { address, why: Foreign::NotTls(Box::new(tls.clone())) })
        }
        _ if is_foreign(tls) || is_garbled(tls) => Some(CallError::Tampered { address, why: Box::new(tls.clone()) }),
        rustls::Error::AlertReceived(alert) if own => {
            let (why, alert) = match *alert {
                Alert::CertificateRevoked => ("it was revoked", AlertKind::Revoked),
                Alert::CertificateExpired => ("it has expired by the gateway's clock", AlertKind::Expired),
                Alert::UnknownCA => ("it leads to a root that the gateway does not trust", AlertKind::Other),
                Alert::AccessDenied => ("its issuer, name or binding is not in order", AlertKind::Other),
                Alert::BadCertificate => {
                    ("it is not valid yet by the gateway's clock, or cannot be read", AlertKind::Other)
                }
                _ => ("the gateway does not say why", AlertKind::Other),
            };
            Some(CallError::NotAccepted { address, why, alert, standing: None })
        }
        _ => None,
    }
}
