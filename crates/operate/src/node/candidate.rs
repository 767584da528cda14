//! Whom an operator means who says yes: a machine that waits, or a member that was cut off.

use identity::id::Digest;
use identity::principal::{NodeName, SignerName};

use super::waiting::{self, CutOff, Unclear, WaitingClaim};
use crate::session::{Result, Session};

/// Who it is.
#[derive(Debug)]
pub enum Candidate {
    /// A machine that waits; was it said by all seven words, or the whole digest?
    Waits { claim: Box<WaitingClaim>, certain: bool },
    /// A member that waits is listed by the next head, which the threshold signs.
    Cut(Box<CutOff>),
}

impl Candidate {
    /// What a yes is about.
    pub const fn about(&self) -> Digest {
        match self {
            Self::Waits { claim, .. } => claim.digest,
            Self::Cut(cut) => cut.admission,
        }
    }

    pub fn name(&self) -> &NodeName {
        match self {
            Self::Waits { claim, .. } => &claim.claim.name,
            Self::Cut(cut) => &cut.name,
        }
    }

    /// Who has said yes before.
    pub fn yes(&self) -> &[SignerName] {
        match self {
            Self::Waits { claim, .. } => &claim.yes,
            Self::Cut(_) => &[],
        }
    }
}

/// Why nobody can be meant, or too many.
#[derive(Debug)]
pub enum NoCandidate {
    Unclear(Unclear),
    /// Members of that name that were cut off: none, or several.
    Rivals(Vec<CutOff>),
}

/// Who was found, and, in words, what the gateway showed that does not hold.
#[derive(Debug)]
pub struct Search {
    pub found: std::result::Result<Candidate, NoCandidate>,
    pub odd: Vec<String>,
}

/// A machine that waits, or else a member that was cut off; its node key begins with `key`, if one was said.
pub async fn find(session: &mut Session, said: &str, key: Option<&str>) -> Result<Search> {
    let (mut waiting, odd) = waiting::all(session).await?;
    waiting.retain(|one| key.is_none_or(|key| waiting::begins(&one.claim.node_key, key)));
    let found = match (waiting::pick(&waiting, said), said.parse::<NodeName>()) {
        (Ok((claim, certain)), _) => Ok(Candidate::Waits { claim: Box::new(claim), certain }),
        (Err(Unclear::Nobody), Ok(name)) => {
            let cut = waiting::choose(waiting::cut_off(session).await?, &name, key);
            cut.map(|cut| Candidate::Cut(Box::new(cut))).map_err(NoCandidate::Rivals)
        }
        (Err(why), _) => Err(NoCandidate::Unclear(why)),
    };
    Ok(Search { found, odd })
}
