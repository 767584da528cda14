//! What a gateway says of its members, and no operator signs.

use identity::id::Digest;
use identity::principal::NodeName;

/// Why what a gateway says of a name is not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    #[error(
        "`{name}` was published with the node key {published}, which was never revoked; now the gateway shows the \
         node key {shown} ({key}) under that name"
    )]
    OtherKey { name: NodeName, published: Digest, shown: Digest, key: String },
    #[error("the gateway shows two live node keys under the name `{name}`: {first} and {second}")]
    TwoKeys { name: NodeName, first: String, second: String },
    #[error("the admission of `{name}` (node key {node_key}) does not hold")]
    NotAdmitted { name: NodeName, node_key: Digest },
    #[error(
        "`{name}` was published with the node key {published}, which was neither revoked nor left by its own word; now the \
         gateway does not show it as a member. If it really is gone, say so: --without {name}"
    )]
    Vanished { name: NodeName, published: Digest },
}
