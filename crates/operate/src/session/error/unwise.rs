//! What an operator asks for and had better not have: one reason each, in words that say what to do instead.

use identity::certificate::BadCertificate;
use identity::id::Digest;
use identity::key::PublicKey;
use identity::principal::{Address, NodeName, Principal, SignerName};
use identity::signers::BadQuorum;
use identity::time::Seconds;
use manifest::fleet::ROLE_OPERATOR;
use org::gateway::{BadGatewayRequest, MAX_ADDRESSES};
use org::invite::approve::Waiver;
use org::release::{Agent, BadRelease};
use org::suspend::LONGEST;

#[derive(Debug, thiserror::Error)]
pub enum Unwise {
    #[error("another command of this operator is signing and does not end")]
    Signing,
    #[error("several {what} fit `{wanted}`: give more of the id")]
    SeveralFit { what: &'static str, wanted: String },

    // Nodes, users and services.
    #[error("`{0}` is already revoked")]
    NodeRevoked(NodeName),
    #[error("`{0}` is already revoked")]
    PrincipalRevoked(Principal),
    #[error("a node is revoked by its key: freehold node revoke")]
    NodeByKey,
    #[error("`{0}` is a gateway with a mandate: without it nothing can join or renew")]
    HasMandate(NodeName),
    #[error("`{0}` has not reported anything yet")]
    NoReport(NodeName),
    #[error("`{0}` has nothing on trial: there is nothing to confirm")]
    NothingOnTrial(NodeName),
    #[error("one signer suspends for between 1s and {LONGEST}")]
    SuspensionSpan,
    #[error("a reason is at most 200 characters of plain text")]
    LongReason,
    #[error("a waiver lasts between 1s and {}", Waiver::LONGEST)]
    WaiverSpan,
    #[error("no signer of today has signed the waiver {0}")]
    WaiverUnsigned(Digest),

    // Gateways.
    #[error("{0}")]
    Request(BadGatewayRequest),
    #[error("`{name}` is another machine than the one that asks: its key is {key}")]
    OtherMachine { name: NodeName, key: Box<PublicKey> },
    #[error("`{name}` is not a member, but {state}")]
    NotAMember { name: NodeName, state: &'static str },
    #[error("`{0}` was let in by a pattern, which anybody can forge: such a machine never becomes a gateway")]
    TooLow(NodeName),
    #[error(
        "the voice of `{0}` was closed, and never returns: remove `voice.key` from the gateway's folder there, and ask again"
    )]
    VoiceClosed(NodeName),
    #[error("`{0}` is a gateway already")]
    GatewayAlready(NodeName),
    #[error("its keys are another gateway's")]
    KeysInUse,
    #[error("`{0}` could not renew its own certificate: allow the name `{0}`, too")]
    NotItsOwnName(NodeName),
    #[error("an SVID lives between 10s and 90d")]
    SvidSpan,
    #[error("a mandate lasts between 1h and 3650d")]
    MandateSpan,
    #[error("an SVID lives between 10s and 90d, a mandate between 1h and 3650d")]
    SvidOrMandateSpan,
    #[error("this changes nothing")]
    ChangesNothing,
    #[error("the mandate of `{0}` is over: renew it first")]
    MandateOver(NodeName),
    #[error("`{0}` is the last gateway: without it nothing can join or renew")]
    LastGateway(NodeName),
    #[error("machines find `{gateway}` at {address} already")]
    AddressAlready { gateway: NodeName, address: Address },
    #[error("a gateway has {MAX_ADDRESSES} addresses at most")]
    TooManyAddresses,
    #[error("{address} is the last address of `{gateway}`: nobody would find it")]
    LastAddress { gateway: NodeName, address: Address },
    #[error(
        "{address} is in what the fleet declares as `gateways` for {}: take it out there and publish first, which is tried by \
         each machine", .by.join(", ")
    )]
    AddressDeclared { address: String, by: Vec<String> },
    #[error("where `{gateway}` is found without it, nothing answers from here: {why}")]
    NothingElseAnswers { gateway: NodeName, why: String },
    #[error("nothing is wrong with `{0}`: it has all that it ever told of, and its chain does not fork")]
    NothingWrong(NodeName),
    #[error(
        "nothing is wrong with `{gateway}`: as far as `{asked}` and this home know; ask it itself: --gateway HOST:PORT"
    )]
    NothingKnownWrong { gateway: NodeName, asked: NodeName },
    #[error("`{0}` has not said in which voice it would go on: start it, and ask it itself: --gateway HOST:PORT")]
    NoNextVoice(NodeName),
    #[error("`{0}` was reopened meanwhile")]
    Reopened(NodeName),

    // Trust.
    #[error("{0}")]
    NotCertified(BadCertificate),
    #[error("somebody turned trust meanwhile: look again")]
    TrustChangedMeanwhile,
    #[error("several ids begin with {}", .0.join(", "))]
    SeveralIds(Vec<String>),
    #[error("nothing that would break is called {}", .0.join(", "))]
    NotBreaking(Vec<String>),

    // Releases.
    #[error("{0}")]
    Release(BadRelease),
    #[error("somebody published another release meanwhile: look again")]
    ReleasedMeanwhile,
    #[error("the gateway does not take file {digest}: it has {have} of {size} bytes")]
    FileNotTaken { digest: Digest, have: u64, size: u64 },
    #[error(
        "the gateway does not have the agent for {} {} of release {number}: add it again, freehold release add FILE",
        agent.os, agent.arch
    )]
    AgentLost { agent: Box<Agent>, number: u64 },

    // Invites.
    #[error("an invite lives between 1s and {0}")]
    InviteSpan(Seconds),
    #[error("a label is at most 200 characters of plain text")]
    LongLabel,
    #[error("between 1 and {0} signers can approve")]
    Approvers(usize),
    #[error("{uses} use(s) cannot be handed to {gateways} gateways: give more uses, or name fewer gateways")]
    TooFewUses { uses: u32, gateways: u32 },
    #[error("a pattern says from which networks: --from CIDR; if really anywhere, type --from 0.0.0.0/0 --from ::/0")]
    PatternFromAnywhere,
    #[error("a pattern that fits any name lets in whoever asks")]
    PatternForAny,
    #[error(
        "a pattern cannot give the role `{ROLE_OPERATOR}`: whoever claims such a name, which proves nothing, would run the org"
    )]
    PatternForOperators,
    #[error("no invite can be made for `{0}`")]
    NoInviteFor(NodeName),

    // Signers.
    #[error("`{0}` is a signer already; a name stands for one key for ever")]
    SignerAlready(SignerName),
    #[error("`{0}` is a signer already: the new key needs a name of its own")]
    NeedsItsOwnName(SignerName),
    #[error("`{0}` is the last signer: nobody could decide anything any more")]
    LastSigner(SignerName),
    #[error("{0}; choose another --threshold")]
    Quorum(BadQuorum),
    #[error("the signer's name `{0}` belongs to another key: choose another")]
    SignerNameTaken(SignerName),
    #[error("something else was signed since this was shown: look again")]
    ClaimedMeanwhile,
    #[error(
        "all of them signed two sets that contradict each other: only two of the recovery phrases settle that, \
         freehold recover --signer NAME"
    )]
    SettledTwice,
    #[error(
        "nobody would be left to sign: each set removed whom another kept. Two of the recovery phrases settle it: \
         freehold recover --signer NAME"
    )]
    NobodyLeft,
    #[error("{0}; choose another --threshold, or leave somebody out: --without NAME")]
    SettledQuorum(BadQuorum),
    #[error("too many recoveries are in sight here: finish one of them")]
    TooManyRecoveries,
    #[error("it would lead nowhere: a key in it was a signer's before")]
    LeadsNowhere,

    // The fleet, and heads.
    #[error("head {0} published another fleet since this plan was made: look again")]
    OtherFleetSince(u64),
    #[error("`{0}` was revoked since this plan was made: look again")]
    RevokedSince(NodeName),
    #[error("two members have one name")]
    TwoOfOneName,
    #[error("no earlier head published another fleet")]
    NoEarlierFleet,
    #[error("head {version} was signed by signer set {set}, which was replaced: name it, --to {version}")]
    OfFormerSigners { version: u64, set: u64 },
    #[error("head {0} is the one in force")]
    InForce(u64),
    #[error("head {0} was signed before a fleet was published")]
    BeforeFleets(u64),
    #[error("head {0} was published since this was planned: look again")]
    HeadSince(u64),
    #[error("no gateway of that head has a voice that was not closed since: nobody could follow")]
    NobodyFollows,
    #[error("{} heads fit `{said}`: {}; say which by its digest", heads.len(), listed(heads))]
    SeveralHeads { said: String, heads: Vec<Digest> },
    #[error("head {0} is the one in force: name the last good one before it")]
    NothingToGoRound(u64),
    #[error("no fleet is published: there is nothing to write")]
    NothingPublished,
    #[error("the gateway does not have every trust bundle that the head names")]
    BundlesLacking,
}

fn listed(heads: &[Digest]) -> String {
    heads.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
