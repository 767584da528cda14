//! Why trust is not turned: one reason each, and what to do about it.

use identity::bundle::{BadBundle, MAX_ISSUERS};
use identity::id::Fingerprint;
use identity::principal::{Host, NodeName};
use identity::time::Timestamp;
use identity::trust::BadStep;

use super::{lines, quoted};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    #[error(transparent)]
    Step(#[from] BadStep),
    #[error("nothing is under way")]
    NothingUnderWay(&'static str),
    #[error("no version of the `{0}` bundle is staged")]
    NothingStaged(&'static str),
    #[error("version {version} has taken version {reverts} back already")]
    AlreadyBack { version: u64, reverts: u64 },
    #[error("these gateways have not told their issuing keys: {}", quoted(.0))]
    UnknownIssuers(Vec<NodeName>),
    #[error("no gateway with a mandate is called `{0}`")]
    NoGateway(NodeName),
    #[error("no node is called {}", quoted(.0))]
    NoNodes(Vec<NodeName>),
    #[error("the issuing keys of `{0}` are known: it would serve nobody under the new root, and for no reason")]
    KeysKnown(NodeName),
    #[error("{0} gateways are to be certified, and a version has room for {MAX_ISSUERS}")]
    TooManyGateways(usize),
    #[error("no certificate under version {version} is known of these gateways' issuing keys: {}", quoted(.gateways))]
    Uncertified { version: u64, gateways: Vec<NodeName> },
    #[error("the issuing key that `{0}` tells of is not the one of its mandate")]
    OtherIssuer(NodeName),
    #[error("what answers there does not speak in the voice of `{0}`")]
    AnotherGateway(NodeName),
    #[error("no gateway has told of a spare issuing key: nobody could issue any more")]
    NoSpare,
    #[error("the root {root} stands in version {version} of the `{domain}` bundle: a root belongs to one domain only")]
    OtherDomain { root: Fingerprint, version: u64, domain: &'static str },
    #[error("the root {root} was stolen with version {version}: it never comes back")]
    Distrusted { root: Fingerprint, version: u64 },
    #[error("the root {root} stands in version {version} already")]
    InUse { root: Fingerprint, version: u64 },
    #[error("version {version} has not been taken over by {}:{}", count(.missing), lines(.missing))]
    NotAdopted { version: u64, missing: Vec<String> },
    #[error("this would break {}, which nobody waived", .0.join(", "))]
    WouldBreak(Vec<String>),
    #[error("the certificates of version {version} cannot be made: {why}")]
    NotCertified { version: u64, why: BadBundle },
    #[error("an outside root is for the `endpoint` domain alone: nobody else says who may be a member")]
    OutsideIdentity,
    #[error("an outside root must say for which names it is")]
    NoHost,
    #[error("no gateway has the name `{0}`")]
    NoGatewayAt(Host),
    #[error("there is no certificate in it that can be read")]
    NoCertificate,
    #[error("the certificate {root} is not an authority's: it vouches for nobody")]
    NotAnAuthority { root: Fingerprint },
    #[error("the key of the certificate {root} is the org's own, which is no outside root")]
    OwnRoot { root: Fingerprint },
    #[error("the certificate {root} is good from {from} to {until}, and not now")]
    NotNow { root: Fingerprint, from: Timestamp, until: Timestamp },
    #[error("version {0} has just these outside roots")]
    SameOutside(u64),
    #[error("the head trusts what has not come here, the trust bundle {}", quoted(.0))]
    BundleMissing(Vec<String>),
}

impl TrustError {
    pub fn hint(&self) -> Option<String> {
        if let Self::Step(BadStep::InGrace { version, domain, .. }) = self {
            return Some(format!("wait for it; or, if you must: freehold trust retire {domain} {version} --early"));
        }
        if let Self::NothingUnderWay(domain) = self {
            return Some(format!(
                "begin: freehold rotate {domain}; if a step waits for signatures, deliver it first: freehold send FILE"
            ));
        }
        self.fixed_hint().map(str::to_owned)
    }

    const fn fixed_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Step(BadStep::AlreadyStaged(_)) => {
                "see it: freehold trust list; use it: freehold trust activate DOMAIN; or drop it: freehold trust rollback \
                 DOMAIN"
            }
            Self::Step(BadStep::NothingBefore(_)) => {
                "what was retired does not come back: publish a new version, freehold trust publish DOMAIN"
            }
            Self::AlreadyBack { .. } => {
                "see it: freehold trust list; to go forward, publish a new version: freehold trust publish DOMAIN"
            }
            Self::Step(_) => "see what there is: freehold trust list",
            Self::NothingStaged(_) => "publish one first: freehold trust publish DOMAIN",
            Self::UnknownIssuers(_) => {
                "start them, so that the others hear of their keys; or go on without: --without NAME, and they serve \
                 nobody under the new root"
            }
            Self::NoGateway(_) => "see which there are: freehold gateway list",
            Self::NoNodes(_) => {
                "only a member that is not waited for is named; see which there are: freehold node list"
            }
            Self::KeysKnown(_) => {
                "run this again without --without; a gateway that is to serve no more is removed: freehold gateway remove NAME"
            }
            Self::OtherIssuer(_) => {
                "look at that machine: its mandate names other keys than it has; or go on without it: --without NAME"
            }
            Self::TooManyGateways(_) => "remove gateways that are gone: freehold gateway remove NAME",
            Self::Uncertified { .. } => {
                "start them, so that they tell what they have; or certify each: freehold gateway renew NAME; or go on without: \
                 --without NAME, and they serve nobody under its root"
            }
            Self::AnotherGateway(_) => "look who answers at its address; or leave it out: --without NAME",
            Self::NoSpare => "start a gateway, and run this again",
            Self::OtherDomain { .. } | Self::Distrusted { .. } | Self::InUse { .. } => {
                "move that root's files out of the operator's folder: a new one is drawn then"
            }
            Self::NotAdopted { .. } => {
                "wait for them: freehold trust list; or go on without each, by name: --anyway NAME. It goes by the former \
                 version until it is back, and nobody is cut off before that one is retired"
            }
            Self::WouldBreak(_) => {
                "see why: freehold trust plan retire; remove the cause and run this again, or make it anew and waive each: \
                 freehold trust retire --waive NAME"
            }
            Self::OutsideIdentity => {
                "add it to the other domain: freehold trust publish endpoint --outside FILE --for HOST"
            }
            Self::NoHost | Self::NoGatewayAt(_) => {
                "name a gateway's host: --for HOST (freehold trust show endpoint lists them)"
            }
            Self::NoCertificate | Self::NotAnAuthority { .. } | Self::OwnRoot { .. } | Self::NotNow { .. } => {
                "give the root certificate, as PEM, of whoever made the certificate of the web server in front of the \
                 gateway"
            }
            Self::SameOutside(_) => "nothing is to be done; see it: freehold trust show endpoint",
            Self::BundleMissing(_) => {
                "a home that has seen it hands it over when it next looks: freehold status; one that is staged can also be dropped: \
                 freehold trust rollback DOMAIN"
            }
            Self::NotCertified { .. } | Self::NothingUnderWay(_) => return None,
        })
    }
}

fn count(missing: &[String]) -> String {
    if missing.len() == 1 { "1 node".to_owned() } else { format!("{} nodes", missing.len()) }
}
