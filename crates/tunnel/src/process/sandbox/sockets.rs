//! Keeps the process from sockets of this machine: it may make such as go over the network, and no others.
//!
//! Where the agent is an ordinary user's, its socket, the message bus and others' agents take this process for their owner.
//! Landlock does not keep it from them, and a process's id says little about one that can make others.

use std::collections::BTreeMap;

use rustix::net::{AddressFamily, SocketType};
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::process::sandbox::calls;

/// Over the network, and by which the system says which addresses it has.
const ALLOWED: [AddressFamily; 3] = [AddressFamily::INET, AddressFamily::INET6, AddressFamily::NETLINK];
/// The bits of a socket's type that are no flags.
const TYPES: u64 = 0xf;

/// For this thread, and those that it makes. A pair of streams can still be made: its ends are connected for good.
pub(super) fn close() -> Result<(), seccompiler::Error> {
    let local = SeccompRule::new(ALLOWED.iter().map(|family| is_not(*family)).collect::<Result<_, _>>()?)?;
    // An end of any other pair can send to whichever socket of this machine it names.
    let stream = u64::from(SocketType::STREAM.as_raw());
    let odd_type = |of: u64| SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(TYPES), of);
    let odd_types = (0..=TYPES).filter(|of| *of != stream).map(|of| SeccompRule::new(vec![odd_type(of)?]));
    let mut odd_pairs = odd_types.collect::<Result<Vec<_>, _>>()?;
    odd_pairs.push(SeccompRule::new(vec![is_not(AddressFamily::UNIX)?])?);
    let refused = BTreeMap::from([
        (libc::SYS_socket, vec![local]),
        (libc::SYS_socketpair, odd_pairs),
        // Another way to the same, which no filter sees, is closed altogether.
        (libc::SYS_io_uring_setup, Vec::new()),
    ]);
    calls::refuse(refused, libc::EACCES)
}

fn is_not(family: AddressFamily) -> Result<SeccompCondition, seccompiler::Error> {
    let family = u64::from(family.as_raw());
    Ok(SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)?)
}
