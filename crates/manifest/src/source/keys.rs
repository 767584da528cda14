//! Every key that a fleet may have: the one table from which the reader checks and the schema for editors is made.

use identity::time::Seconds;

use super::form::Form;

/// What may stand under a key.
#[derive(Debug)]
pub(super) enum Shape {
    Text(Form),
    /// One text, or a list of them.
    Texts(Form),
    /// A list of texts, and not an empty one.
    Words(Form),
    Flag,
    Whole {
        least: u64,
        most: u64,
    },
    Choice(&'static [&'static str]),
    /// Names, and under each of them the same.
    Map(Form, &'static Shape),
    /// The same, or a plain list of the names.
    MapOrNames(Form, &'static Shape),
    Section(&'static Section),
    /// A text, or a section that says more.
    TextOr(Form, &'static Section),
}

#[derive(Debug)]
pub(super) struct Section {
    /// What a person calls it: "a node".
    pub what: &'static str,
    pub parts: &'static [&'static [Key]],
    /// Exactly one of these, if any are named.
    pub one_of: &'static [&'static str],
    /// Keys that people look for here, and why they are not.
    pub elsewhere: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(super) struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub needed: bool,
    pub about: &'static str,
}

impl Section {
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.parts.iter().flat_map(|part| part.iter())
    }
}

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, needed: false, about }
}

const fn needed(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, shape, needed: true, about }
}

const fn section(what: &'static str, parts: &'static [&'static [Key]]) -> Section {
    Section { what, parts, one_of: &[], elsewhere: &[] }
}

const fn span(least: Seconds, most: Seconds) -> Shape {
    Shape::Text(Form::Span { least, most })
}

const YEAR: Seconds = Seconds::DAY.times(366);
/// A file that is delivered: it travels inside the manifest.
pub const MAX_DELIVERED: usize = 256 << 10;

/// What may stand at the top of each file.
pub(super) static FLEET: Section = section(
    "a fleet",
    &[&[
        key(
            "org",
            Shape::Section(&ORG),
            "The org that this fleet belongs to, and what holds for all of it. Exactly once.",
        ),
        key("nodes", Shape::Map(Form::Machine, &Shape::Section(&NODE)), "Machines, by name."),
        key(
            "classes",
            Shape::Map(Form::Name, &Shape::Section(&CLASS)),
            "Machines that are alike, by the pattern of their names.",
        ),
        key("services", Shape::Map(Form::Name, &Shape::Section(&SERVICE)), "What listens somewhere."),
        key("users", Shape::Map(Form::Name, &Shape::Section(&USER)), "People and programs."),
        key(
            "roles",
            Shape::Map(Form::Role, &Shape::Section(&ROLE)),
            "What may be reached. `node` is had by every node, `operator` by those who run the org.",
        ),
        key("groups", Shape::MapOrNames(Form::Name, &Shape::Section(&GROUP)), "Services that are allowed together."),
        key(
            "invites",
            Shape::Map(Form::Name, &Shape::Section(&INVITE)),
            "Standing patterns by which machines may join.",
        ),
    ]],
);

static ORG: Section = section(
    "an org",
    &[
        &[
            needed("name", Shape::Text(Form::Org), "The org's name, as it was founded."),
            needed("id", Shape::Text(Form::OrgId), "The org's id: `freehold org list` shows it."),
            key(
                "freshness",
                span(Seconds::MINUTE, YEAR),
                "How long a head stays fresh after it was published. 30d if nothing is said.",
            ),
            key("svid", Shape::Section(&ORG_SVID), "What SVIDs of services and users may carry."),
            key("stale", Shape::Section(&STALE), "Who opens nothing new when no fresh head has come for too long."),
        ],
        POLICY,
    ],
);

static ORG_SVID: Section = section(
    "what SVIDs may carry",
    &[&[key(
        "dns",
        Shape::Texts(Form::HostGlob),
        "Patterns of the DNS names that SVIDs may carry. `*` stands for any run, dots too. Nothing: none may.",
    )]],
);

static STALE: Section = section(
    "a rule for stale heads",
    &[&[
        needed(
            "margin",
            span(Seconds(0), YEAR),
            "How long after the end of a head's freshness the rule begins to hold.",
        ),
        needed("roles", Shape::Texts(Form::Role), "Whom it holds for. `node` is every node."),
    ]],
);

static A_CHECK: Shape = Shape::Section(&CHECK);
static A_FILE: Shape = Shape::Section(&FILE);

/// What an org sets for all, and a node or class may set for itself.
const POLICY: &[Key] = &[
    key(
        "gateways",
        Shape::Texts(Form::Gateway),
        "Where gateways answer. Nothing: where the node has found them so far.",
    ),
    key("lifetimes", Shape::Section(&LIFETIMES), "How long certificates live."),
    key("apply", Shape::Section(&APPLY), "When a new state stays, and when it goes back."),
    key("sync", Shape::Section(&SYNC), "How a node asks for news."),
    key("checks", Shape::Map(Form::Name, &A_CHECK), "What must hold under a new state, or it goes back."),
    key(
        "files",
        Shape::Map(Form::File, &A_FILE),
        "Files that are delivered, by the path under the node's folder for them.",
    ),
    key("tunnel", Shape::Section(&TUNNEL), "How services elsewhere are reached from here, and this machine by others."),
];

static TUNNEL: Section = section(
    "a tunnel policy",
    &[&[
        key(
            "transport",
            Shape::Choice(&["auto", "tls", "quic"]),
            "What carries streams to other nodes. auto: whichever is better for the peer. auto if nothing is said.",
        ),
        key(
            "listen",
            Shape::Text(Form::Listen),
            "Where the machine listens for other nodes. Nothing: on all its addresses, at the port of its `address`.",
        ),
        key(
            "socks",
            Shape::TextOr(Form::Socks, &SOCKS),
            "Where programs ask for services by SOCKS5, or `off`. 127.0.0.1:1080 if nothing is said.",
        ),
        key(
            "forward",
            Shape::Map(Form::Listen, &Shape::TextOr(Form::Name, &FORWARD)),
            "Addresses of this machine that lead to one service each.",
        ),
        key(
            "resolver",
            Shape::Text(Form::Listen),
            "Where names of services are resolved for programs. Nothing: nowhere.",
        ),
    ]],
);

static SOCKS: Section = section(
    "a SOCKS policy",
    &[&[
        key("at", Shape::Text(Form::Listen), "Where it listens. 127.0.0.1:1080 if nothing is said."),
        key("password", Shape::Flag, "Whether programs say by user and password for whom they ask."),
    ]],
);

static FORWARD: Section = section(
    "a forward",
    &[&[
        needed("service", Shape::Text(Form::Name), "The service that it leads to."),
        key("user", Shape::Text(Form::Name), "The user for whom it asks. Nothing: the machine itself."),
    ]],
);

static LIFETIMES: Section = section(
    "lifetimes",
    &[&[key(
        "svid",
        span(Seconds(10), YEAR),
        "How long an SVID lives at most. A node may have less than its org, not more.",
    )]],
);

static APPLY: Section = section(
    "an apply policy",
    &[&[
        key(
            "deadline",
            span(Seconds(1), Seconds::DAY),
            "After this time, what was not confirmed goes back. 5m if nothing is said.",
        ),
        key(
            "confirm",
            Shape::Choice(&["auto", "operator", "offline"]),
            "auto: the node reaches a gateway and its checks pass. operator: and an operator says so. offline: the checks alone.",
        ),
    ]],
);

static SYNC: Section = section(
    "a sync policy",
    &[&[key(
        "wait",
        span(Seconds(1), Seconds(300)),
        "How long a gateway may keep the node waiting for news. 50s if nothing is said.",
    )]],
);

static CHECK: Section = Section {
    one_of: &["tcp", "http", "command"],
    ..section(
        "a check",
        &[&[
            key("tcp", Shape::Text(Form::Address), "Something accepts connections there."),
            key("http", Shape::Text(Form::Url), "A GET over plain HTTP answers with the status."),
            key(
                "status",
                Shape::Whole { least: 100, most: 599 },
                "The status that `http` must answer with. 200 if nothing is said.",
            ),
            key(
                "command",
                Shape::Words(Form::Free { most: 4096 }),
                "A program and its words, without a shell; it must end with 0.",
            ),
            key("timeout", span(Seconds(1), Seconds(3600)), "How long it may take. 5s if nothing is said."),
        ]],
    )
};

static FILE: Section = Section {
    one_of: &["content", "from"],
    ..section(
        "a file",
        &[&[
            key("content", Shape::Text(Form::Free { most: MAX_DELIVERED }), "What is in it."),
            key(
                "from",
                Shape::Text(Form::File),
                "Where it lies, from the fleet's folder on. What lies under `files/` is not read as fleet.",
            ),
            key("executable", Shape::Flag, "Whether it may be run."),
        ]],
    )
};

static NODE: Section = section("a node", &[MACHINE, PLACED, POLICY]);

const MACHINE: &[Key] = &[
    key(
        "labels",
        Shape::Map(Form::LabelPart, &Shape::Text(Form::LabelPart)),
        "For people, and for choosing: `key: value`.",
    ),
    key("roles", Shape::Texts(Form::Role), "What it may reach, beside what the role `node` allows."),
];

const PLACED: &[Key] = &[
    key("address", Shape::Text(Form::Address), "Where other nodes reach it. Nothing: only through a relay."),
    key("relay", Shape::Flag, "Whether it carries traffic for nodes without an address."),
];

static CLASS: Section = Section {
    elsewhere: &[
        ("address", "an address belongs to one machine: declare that one under `nodes`"),
        ("relay", "a relay is one machine with an address: declare that one under `nodes`"),
        ("names", "call it `match`"),
    ],
    ..section(
        "a class",
        &[
            &[needed(
                "match",
                Shape::Texts(Form::Glob),
                "Patterns of names: every node whose name fits, and that no other entry names.",
            )],
            MACHINE,
            POLICY,
        ],
    )
};

static SERVICE: Section = section(
    "a service",
    &[&[
        needed("at", Shape::Texts(Form::Machine), "The nodes or classes on which it listens."),
        needed("addr", Shape::Text(Form::Address), "Where it listens on them, as the node itself reaches it."),
        key("groups", Shape::Texts(Form::Name), "The groups it is in: whose role allows one of them may call it."),
        key("roles", Shape::Texts(Form::Role), "What the service itself may call."),
        key("tells_caller", Shape::Flag, "Whether it is told who calls, in a PROXY header of version 2."),
        key("svid", Shape::Section(&SVID), "How the service's program has its SVID. Nothing: only the agent reads it."),
    ]],
);

static SVID: Section = section(
    "an SVID for a program",
    &[&[
        key("owner", Shape::Text(Form::Account), "Whose file the private key is. Nothing: the agent's own user."),
        key("group", Shape::Text(Form::Account), "The key's group. Nothing: the agent's own."),
        key(
            "mode",
            Shape::Text(Form::KeyMode),
            "Who reads the key. 0600: its owner. 0640: its group, too. 0600 if nothing is said.",
        ),
        key("dns", Shape::Texts(Form::HostName), "DNS names in the certificate, of those that the org allows."),
        key(
            "reload",
            Shape::Words(Form::Free { most: 4096 }),
            "A program and its words, without a shell, that runs after each change of the files.",
        ),
    ]],
);

static USER: Section = section(
    "a user",
    &[&[
        key("roles", Shape::Texts(Form::Role), "What the user may reach. At least one user has `operator`."),
        key("nodes", Shape::Texts(Form::Machine), "The nodes or classes on which the user has an identity."),
        key("svid", Shape::Section(&SVID), "How the user's program has its SVID. Nothing: only the agent reads it."),
    ]],
);

static ROLE: Section =
    section("a role", &[&[key("allow", Shape::Texts(Form::Name), "The groups whose services may be called.")]]);

static GROUP: Section =
    section("a group", &[&[key("about", Shape::Text(Form::Free { most: 1000 }), "For people: what it is for.")]]);

static INVITE: Section = Section {
    one_of: &["names", "hosts"],
    ..section(
        "an invite",
        &[&[
            key("names", Shape::Texts(Form::Glob), "Patterns of the names that may join."),
            key("hosts", Shape::Texts(Form::HostGlob), "Patterns of the full host names that may join."),
            needed(
                "from",
                Shape::Texts(Form::Network),
                "The networks from which they may come. If really anywhere: 0.0.0.0/0 and ::/0.",
            ),
            key(
                "approval",
                Shape::Choice(&["human", "none"]),
                "human: an operator looks at each machine. none: nobody does. human if nothing is said.",
            ),
            key(
                "approvers",
                Shape::Whole { least: 1, most: 16 },
                "How many operators must say yes. 1 if nothing is said.",
            ),
            key("labels", Shape::Map(Form::LabelPart, &Shape::Text(Form::LabelPart)), "Labels that a joiner may take."),
            key("roles", Shape::Texts(Form::Role), "Roles that a joiner may take."),
        ]],
    )
};
