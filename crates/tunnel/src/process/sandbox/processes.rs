//! Keeps the process from making others: it may make threads, which end with it.
//!
//! The agent ends a tunnel that does not obey. A process that it had made would go on, with its sockets and its keys.

use std::collections::BTreeMap;

use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::process::sandbox::calls;

/// Elsewhere the system has only `clone`.
#[cfg(target_arch = "x86_64")]
const FORKS: [i64; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [i64; 0] = [];

/// For this thread, and those that it makes.
pub(super) fn close() -> Result<(), seccompiler::Error> {
    let thread = u64::from(libc::CLONE_THREAD.unsigned_abs());
    let is_process = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), 0)?;
    let mut refused = BTreeMap::from([
        (libc::SYS_clone, vec![SeccompRule::new(vec![is_process])?]),
        (libc::SYS_unshare, Vec::new()),
        (libc::SYS_setns, Vec::new()),
    ]);
    refused.extend(FORKS.map(|fork| (fork, Vec::new())));
    calls::refuse(refused, libc::EPERM)?;
    // No filter sees what it is asked for. C libraries take it for an older system then, and make their threads by `clone`.
    calls::refuse(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}
