//! Which program a person types about a node: `freehold-node`, or `freehold` where the agent is inside `freehold serve`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The agent is a process of its own, and so is what asks it.
    Node,
    /// The machine joined and became a gateway, which has the agent inside.
    NodeAsGateway,
    /// The org was founded on this machine, and its gateway has the agent inside.
    Gateway,
}

impl Program {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node | Self::NodeAsGateway => "freehold-node",
            Self::Gateway => "freehold",
        }
    }

    /// A command that both have: `status`, `port`, `top`, `caller`, `doctor`, `sync`, `trust`.
    pub fn command(self, words: &str) -> String {
        match self {
            Self::Node | Self::NodeAsGateway => format!("freehold-node {words}"),
            Self::Gateway => format!("freehold here {words}"),
        }
    }

    /// What runs the agent.
    pub const fn agent(self) -> &'static str {
        match self {
            Self::Node => "freehold-node run",
            Self::NodeAsGateway => "freehold-node gateway serve",
            Self::Gateway => "freehold serve",
        }
    }

    /// When what lies on the disk is of no use any more.
    pub const fn anew(self) -> &'static str {
        match self {
            Self::Node | Self::NodeAsGateway => {
                "join anew: freehold-node leave --local, then freehold-node join with a fresh invite"
            }
            Self::Gateway => {
                "put back the newest copy of the gateway's folder; or restore the org: freehold backup restore FILE"
            }
        }
    }

    /// When the operators want no more of this machine's key.
    pub const fn replaced(self) -> &'static str {
        match self {
            Self::Node | Self::NodeAsGateway => {
                "join as a new machine: freehold-node leave --local, then freehold-node join with a fresh invite"
            }
            Self::Gateway => {
                "operators make another machine the gateway: there freehold-node gateway request, here freehold gateway add"
            }
        }
    }
}
