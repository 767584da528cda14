//! One file per target: its seeds, and what must hold for every input. A check says whether it got to its end.

pub mod invite_code;
pub mod enroll_request;
pub mod certificate_request;
pub mod envelope;
pub mod ledger_entry;
pub mod head;
pub mod founding;
pub mod admission;
pub mod store_rows;
pub mod signers;
pub mod fleet;
pub mod sync;
pub mod executable;
pub mod file_path;
pub mod carried;
pub mod socks;
pub mod dns_query;
pub mod tunnel_frame;
pub mod age_header;
pub mod backup_tar;

pub type Check = fn(&[u8]) -> bool;
pub type Seeds = fn() -> Vec<Vec<u8>>;

/// All of them. Each has a program of its own name in `fuzz_targets`.
pub const ALL: [(&str, Seeds, Check); 20] = [
    ("invite_code", invite_code::seeds, invite_code::check),
    ("enroll_request", enroll_request::seeds, enroll_request::check),
    ("certificate_request", certificate_request::seeds, certificate_request::check),
    ("envelope", envelope::seeds, envelope::check),
    ("ledger_entry", ledger_entry::seeds, ledger_entry::check),
    ("head", head::seeds, head::check),
    ("founding", founding::seeds, founding::check),
    ("admission", admission::seeds, admission::check),
    ("store_rows", store_rows::seeds, store_rows::check),
    ("signers", signers::seeds, signers::check),
    ("fleet", fleet::seeds, fleet::check),
    ("sync", sync::seeds, sync::check),
    ("executable", executable::seeds, executable::check),
    ("file_path", file_path::seeds, file_path::check),
    ("carried", carried::seeds, carried::check),
    ("socks", socks::seeds, socks::check),
    ("dns_query", dns_query::seeds, dns_query::check),
    ("tunnel_frame", tunnel_frame::seeds, tunnel_frame::check),
    ("age_header", age_header::seeds, age_header::check),
    ("backup_tar", backup_tar::seeds, backup_tar::check),
];

/// Real objects must get to the end, or the target would look at nothing and nobody would notice.
pub fn hold_seeds(seeds: Seeds, check: Check) {
    for (n, seed) in seeds().iter().enumerate() {
        assert!(check(seed), "seed {n} of this target is refused: {}", String::from_utf8_lossy(seed));
    }
}
