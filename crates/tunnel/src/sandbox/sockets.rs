//! Keeps the process from sockets of this machine: it may make such as go over the network, and no others.
//!
//! Where the agent is an ordinary user's, its socket, the message bus and others' agents take this process for their owner.
//! Landlock does not keep it from them, and a process's id says little about one that can make others.

use std::collections::BTreeMap;

use rustix::net::AddressFamily;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// Over the network, and by which the system says which addresses it has.
const ALLOWED: [AddressFamily; 3] = [AddressFamily::INET, AddressFamily::INET6, AddressFamily::NETLINK];

/// On this architecture the same calls have a second number.
#[cfg(target_arch = "x86_64")]
const TWIN: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const TWIN: Option<i64> = None;

/// For this thread, and those that it makes. A pair of sockets that is connected from the start can still be made.
pub fn close() -> Result<(), seccompiler::Error> {
    let is_other = |family: &AddressFamily| {
        let family = u64::from(family.as_raw());
        SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
    };
    let local = SeccompRule::new(ALLOWED.iter().map(is_other).collect::<Result<_, _>>()?)?;
    // Another way to the same, which no filter sees, is closed altogether: an empty list stands for any arguments.
    let mut rules = BTreeMap::from([(libc::SYS_socket, vec![local]), (libc::SYS_io_uring_setup, Vec::new())]);
    if let Some(twin) = TWIN {
        let twins: Vec<_> = rules.iter().map(|(call, rules)| (call | twin, rules.clone())).collect();
        rules.extend(twins);
    }
    let refusal = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}
