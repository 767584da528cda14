//! Releases of the agent: read from programs, signed, published in a head.

pub mod files;

use ground::clock;
use identity::head::Cause;
use identity::id::Digest;
use org::release::executable::{NotAnAgent, Platform, marked_version};
use org::release::{Agent, AgentVersion, MAX_FILE, Release};

use crate::key::SignerKeys;
use crate::release::files::Sent;
use crate::session::{Made, OperateError, Result, Session, Unsigned, Unwise};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    #[error(transparent)]
    Program(#[from] NotAnAgent),
    #[error("it is larger than {} MiB", MAX_FILE >> 20)]
    TooLarge,
    #[error("it does not say which version of freehold-node it is")]
    NoVersion,
    #[error("it says that it is version {found}, not {wanted}")]
    OtherVersion { found: AgentVersion, wanted: AgentVersion },
}

/// Reads what a release says of an agent. It is never run: it may be for another machine, or not what it seems.
pub fn read_agent(file: &[u8], version: Option<&AgentVersion>) -> Result<Agent, NoAgent> {
    let size = file.len() as u64;
    if size > MAX_FILE {
        return Err(NoAgent::TooLarge);
    }
    let (os, arch) = Platform::read(file)?.words().ok_or(NotAnAgent::NoProgram)?;
    let version = match (marked_version(file), version) {
        (None, None) => return Err(NoAgent::NoVersion),
        (Some(found), Some(wanted)) if found != *wanted => {
            return Err(NoAgent::OtherVersion { found, wanted: wanted.clone() });
        }
        (found, wanted) => found.or_else(|| wanted.cloned()).ok_or(NoAgent::NoVersion)?,
    };
    Ok(Agent { os, arch, version, size, sha256: Digest::of(file) })
}

/// Releases that the threshold signed.
#[derive(Debug, Clone)]
pub struct Releases {
    /// The newest first.
    pub all: Vec<(Digest, Release)>,
    /// What the head in force names.
    pub current: Option<Release>,
}

/// What was published, as signed; the gateway's word alone does not count.
pub async fn all(session: &mut Session) -> Result<Releases> {
    let state = session.folded().await?;
    let sets: Vec<_> = state.signer_sets().collect();
    let opened = state.objects.releases.values().map(|record| &record.envelope).filter_map(|envelope| {
        let release: Release = sets.iter().find_map(|set| set.open(envelope).ok())?;
        release.check().ok()?;
        Some((envelope.digest(), release))
    });
    let all: Vec<_> = opened.collect();
    let named = session.head().release;
    let current = all.iter().find(|(digest, _)| Some(*digest) == named).map(|(_, release)| release.clone());
    match named.filter(|_| current.is_none()) {
        Some(digest) => Err(OperateError::NotAsTold { what: "release", name: digest.to_string() }),
        None => Ok(Releases { all, current }),
    }
}

/// Hands the programs and their list in, then publishes a release of them: in place of those for the same
/// platforms, beside the others.
pub async fn publish(
    session: &mut Session,
    keys: &SignerKeys,
    programs: &[(Agent, Vec<u8>)],
    told: impl FnMut(Sent),
) -> Result<Made<Release>> {
    let agents: Vec<Agent> = programs.iter().map(|(agent, _)| agent.clone()).collect();
    let before = all(session).await?;
    let number = before.all.iter().map(|(_, release)| release.number).max();
    let mut release = Release::next(before.current.as_ref(), agents, clock::now());
    // Two that waited for signatures at once may have been numbered alike.
    release.number = release.number.max(number.map_or(1, |number| number.saturating_add(1)));
    release.check().map_err(Unwise::Release)?;
    let list = release.list_text();
    let bytes = programs.iter().map(|(_, bytes)| bytes.as_slice()).chain([list.as_bytes()]);
    files::hand_in(session, &bytes.collect::<Vec<_>>(), told).await?;
    let (stood_on, sealed) = (session.head().release, session.seal(&release)?);
    session
        .publish(keys, |session, now| {
            if session.head().release != stood_on {
                return Err(Unwise::ReleasedMeanwhile.into());
            }
            let cause = Cause::ReleasePublish { number: release.number };
            let next = session.next_head(now, cause, |head| head.release = Some(sealed.digest()))?;
            Ok(Unsigned { objects: vec![sealed.clone()], next: Some(next), what: release.clone() })
        })
        .await
}
