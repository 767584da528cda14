//! What the ledger says of members, and no operator signs unasked.

use identity::id::Digest;
use identity::principal::NodeName;

/// Why what the ledger says of a name is not published.
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
        "`{name}` was published with the node key {published}, which was neither revoked nor left by its own word; now it \
         is not a member by the ledger. If it really is gone, say so: --without {name}"
    )]
    Vanished { name: NodeName, published: Digest },
}
