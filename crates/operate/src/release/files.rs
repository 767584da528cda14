//! Handing files in: what the gateway does not have yet, in parts, from where an earlier try was cut off.

use std::collections::BTreeMap;

use identity::id::Digest;
use identity::text::Bytes;
use identity::time::Seconds;
use org::refusal::Refusal;
use wire::control::{BYTES_PER_CALL, Call, ControlAnswer, MissingFile};

use crate::session::{DeskError, OperateError, Result, Session, Unwise};

/// A gateway that keeps saying that it has less is not fed for ever.
const TRIES: usize = 3;

/// What a person is shown while files are handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub done: u64,
    pub all: u64,
}

/// Hands in those of these files that are missing. `told` hears how much is done.
pub(crate) async fn hand_in(session: &mut Session, files: &[&[u8]], mut told: impl FnMut(Sent)) -> Result<()> {
    let files: BTreeMap<Digest, &[u8]> = files.iter().map(|bytes| (Digest::of(bytes), *bytes)).collect();
    let missing = missing(session, files.keys().copied().collect()).await?;
    let wanted: Vec<_> = missing.iter().filter_map(|gap| Some((gap, *files.get(&gap.digest)?))).collect();
    let all = wanted.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let mut before = 0;
    for (gap, bytes) in wanted {
        hand_in_one(session, *gap, bytes, |have| told(Sent { done: before + have, all })).await?;
        before += bytes.len() as u64;
    }
    Ok(())
}

pub(crate) async fn missing(session: &mut Session, digests: Vec<Digest>) -> Result<Vec<MissingFile>> {
    match session.ask(Call::FilesMissing { digests }).await? {
        ControlAnswer::FilesMissing { missing } => Ok(missing),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

async fn hand_in_one(
    session: &mut Session,
    MissingFile { digest, have }: MissingFile,
    bytes: &[u8],
    mut told: impl FnMut(u64),
) -> Result<()> {
    let size = bytes.len() as u64;
    let (mut at, mut setbacks) = (have.min(size.saturating_sub(1)), 0);
    while at < size {
        let rest = usize::try_from(at).ok().and_then(|from| bytes.get(from..)).unwrap_or_default();
        let part = rest.get(..BYTES_PER_CALL).unwrap_or(rest).to_vec();
        let until = at + part.len() as u64;
        let have = match session.ask(Call::FilePart { digest, size, from: at, bytes: Bytes(part) }).await {
            Ok(ControlAnswer::FilePart { have }) => have,
            Ok(_) => return Err(DeskError::OtherAnswer.into()),
            // What an earlier try left was not a part of this file: the gateway has thrown it away.
            Err(why) if setbacks == 0 && at > 0 && is_malformed(&why) => 0,
            Err(why) => return Err(why),
        };
        if have < until {
            setbacks += 1;
        }
        if setbacks > TRIES {
            return Err(Unwise::FileNotTaken { digest, have, size }.into());
        }
        at = have.min(size);
        told(at);
    }
    Ok(())
}

/// Has the gateway remove what nothing names: how many files, and bytes.
pub async fn sweep(session: &mut Session, unused_for: Seconds) -> Result<(u64, u64)> {
    match session.ask(Call::FilesSweep { unused_for }).await? {
        ControlAnswer::FilesSwept { files, bytes } => Ok((files, bytes)),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}

fn is_malformed(why: &OperateError) -> bool {
    matches!(why, OperateError::Desk(why) if matches!(why.refusal(), Some(Refusal::Malformed { .. })))
}
