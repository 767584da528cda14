//! Calls that the system refuses to this process from now on.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

/// On this architecture the same calls have a second number.
#[cfg(target_arch = "x86_64")]
const TWIN: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const TWIN: Option<i64> = None;

/// By call, one rule of which has to fit; an empty list stands for any arguments. For this thread, and those that it makes.
pub(super) fn refuse(mut rules: BTreeMap<i64, Vec<SeccompRule>>, with: i32) -> Result<(), seccompiler::Error> {
    if let Some(twin) = TWIN {
        let twins: Vec<_> = rules.iter().map(|(call, rules)| (call | twin, rules.clone())).collect();
        rules.extend(twins);
    }
    let refusal = SeccompAction::Errno(with.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}
