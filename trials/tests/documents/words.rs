//! The field's words stand where a newcomer looks for them: in a file's first lines, and beside that file in the glossary.

use super::{assert_none, document};
use crate::layout::root;

/// A file, and the word by which people from elsewhere know what is in it.
const FIELD_WORDS: [(&str, &str); 71] = [
    ("identity/bundle/mod.rs", "trust bundle"),
    ("identity/certificate/binding.rs", "proof of possession"),
    ("identity/certificate/mod.rs", "X.509-SVID"),
    ("identity/head/mod.rs", "checkpoint"),
    ("identity/head/revoked.rs", "CRL"),
    ("identity/members/mod.rs", "Merkle map"),
    ("identity/signers.rs", "threshold"),
    ("org/audit/hindsight.rs", "point-in-time"),
    ("org/enroll/mod.rs", "admission control"),
    ("org/enroll/renew.rs", "clone detection"),
    ("org/founding.rs", "root of trust"),
    ("org/invite/admission.rs", "channel binding"),
    ("org/invite/approve.rs", "device approval"),
    ("org/invite/mod.rs", "join token"),
    ("org/invite/words.rs", "short authentication string"),
    ("org/ledger/chain.rs", "equivocation"),
    ("org/ledger/entry.rs", "hash chain"),
    ("org/ledger/fold.rs", "event sourcing"),
    ("org/ledger/frontier.rs", "version vector"),
    ("org/ledger/ground.rs", "policy snapshot"),
    ("org/ledger/heads.rs", "log compaction"),
    ("org/ledger/judge.rs", "policy decision point"),
    ("org/ledger/mod.rs", "append-only log"),
    ("org/ledger/signers.rs", "split brain"),
    ("org/release/mod.rs", "targets"),
    ("org/report.rs", "heartbeat"),
    ("org/state/consent.rs", "readiness gate"),
    ("org/state/mod.rs", "materialized view"),
    ("org/suspend/mod.rs", "quarantine"),
    ("manifest/access.rs", "RBAC"),
    ("manifest/source/mod.rs", "desired state"),
    ("ground/sealed_box.rs", "HPKE"),
    ("ground/steady.rs", "monotonic clock"),
    ("wire/known/mod.rs", "rollback protection"),
    ("wire/tree/mod.rs", "repository on a dumb server"),
    ("ledger/sights.rs", "first-seen timestamp"),
    ("tunnel/access/pins.rs", "trust on first use"),
    ("tunnel/access/policy.rs", "read-copy-update"),
    ("tunnel/access/table.rs", "ACL"),
    ("tunnel/dial/connector.rs", "happy eyeballs"),
    ("tunnel/dial/health.rs", "outlier detection"),
    ("tunnel/dial/queue.rs", "single flight"),
    ("tunnel/state/streams.rs", "connection registry"),
    ("member/agent/errand.rs", "control socket"),
    ("member/agent/hear.rs", "reconciliation loop"),
    ("member/apply/probe.rs", "health check"),
    ("member/apply/trial/mod.rs", "commit-confirm"),
    ("member/store/scope.rs", "data directory"),
    ("gateway/limit/halt.rs", "fencing"),
    ("gateway/limit/limits.rs", "rate limit"),
    ("gateway/limit/registry.rs", "connection registry"),
    ("gateway/port/ingress.rs", "trusted proxies"),
    ("gateway/port/conversation.rs", "long poll"),
    ("member/ask/sync.rs", "long poll"),
    ("member/ask/enroll/joining.rs", "backoff"),
    ("gateway/replicate/mesh.rs", "anti-entropy"),
    ("gateway/replicate/peering.rs", "full mesh"),
    ("gateway/write/issuers.rs", "cross-signing"),
    ("gateway/write/observations.rs", "write-behind"),
    ("gateway/write/writer.rs", "group commit"),
    ("operate/key/agent/mod.rs", "ssh-agent"),
    ("operate/key/token/mod.rs", "HSM"),
    ("operate/pending/mod.rs", "partially signed transaction"),
    ("operate/publish/around.rs", "revert"),
    ("operate/publish/plan.rs", "plan and apply"),
    ("operate/publish/schema.rs", "API version"),
    ("operate/replica/roll.rs", "membership diff"),
    ("operate/session/publish.rs", "optimistic concurrency"),
    ("operate/signer/over.rs", "re-signing"),
    ("operate/signer/weigh.rs", "four eyes"),
    ("admin/found/recovery.rs", "break-glass keys"),
];

#[test]
fn files_say_the_fields_word_for_what_is_in_them() {
    let glossary = document("docs/glossary.md").text.to_lowercase();
    let mut complaints = Vec::new();
    for (file, word) in FIELD_WORDS {
        let (krate, rest) = file.split_once('/').unwrap();
        let path = root().join("crates").join(krate).join("src").join(rest);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("`{file}`: {why}"));
        let first = text.lines().map_while(|line| line.strip_prefix("//! ")).collect::<Vec<_>>().join(" ");
        if !first.to_lowercase().contains(&word.to_lowercase()) {
            complaints.push(format!("the first lines of `{file}` no longer say `{word}`"));
        }
        let row = |line: &str| line.contains(&format!("`{file}`")) && line.contains(&word.to_lowercase());
        if !glossary.lines().any(row) {
            complaints.push(format!("no row of the glossary has `{word}` and `{file}`"));
        }
    }
    assert_none(&complaints);
}
