//! What a gateway says of its members, and no operator signs.

use identity::id::Digest;
use identity::principal::NodeName;

/// Why what a gateway says of a name is not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error(
        "`{name}` was published with the node key {published}, which was never revoked; now the ledger, folded here, has \
         the node key {shown} ({key}) under that name"
    )]
    OtherKey { name: NodeName, published: Digest, shown: Digest, key: String },
    #[error("by the ledger, folded here, two live node keys have the name `{name}`: {first} and {second}")]
    TwoKeys { name: NodeName, first: String, second: String },
    #[error(
        "the gateway shows `{name}` (node key {node_key}) as {shown}; by the ledger, folded here, nobody was let in with \
         that key"
    )]
    Unknown { name: NodeName, node_key: Digest, shown: &'static str },
    #[error("the gateway shows `{name}` as {shown} (node key {node_key}); by the ledger, folded here, it is {folded}")]
    OtherStanding { name: NodeName, node_key: Digest, shown: &'static str, folded: &'static str },
    #[error(
        "the gateway shows `{name}` with the node key {node_key}; by the ledger, folded here, that key was let in as \
         `{folded}`, by the admission {admission}"
    )]
    OtherPapers { name: NodeName, node_key: Digest, folded: NodeName, admission: Digest },
    #[error("the gateway does not show `{name}` (node key {node_key}); by the ledger, folded here, it is {folded}")]
    Hidden { name: NodeName, node_key: Digest, folded: &'static str },
    #[error(
        "`{name}` was published with the node key {published}, which was neither revoked nor left by its own word; now it \
         is not a member by the ledger. If it really is gone, say so: --without {name}"
    )]
    Vanished { name: NodeName, published: Digest },
}
