//! `freehold signer settle`: several signer sets claim one place, and those who sign for each make one of them.

use clap::Args;
use identity::principal::SignerName;
use operate::session::Session;
use operate::signer::over::{Ending, ends_with};
use operate::signer::settle::{Rival, SettleTerms, Settling, first_head, settle, settling};
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use wire::known::freeze::names;

use super::change::tell_ends;
use crate::home::{Common, During};
use crate::waiting::{Consent, Left, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold signer settle                              everybody signs whom no set removed
  freehold signer settle --without eve --threshold 2

Two operators changed the signers at once, each without the other: everybody stands still. This makes one set of both. As many
as each of the sets wants must sign it; what is missing is left as a file for the others (freehold sign, freehold send). Then
everybody follows at once, and the first head takes over what each set had revoked and whom it had listed. Agree who runs it:
two sets that contradict each other lead nowhere.

If whoever signs for one of them is a thief, or will not sign: freehold recover. If nobody stands still, but some machines follow
the one set and some the other, each side changes its signers until both have the same ones.")]
pub struct Settle {
    /// Somebody who is not to sign any more; may be repeated
    #[arg(long, value_name = "NAME")]
    without: Vec<SignerName>,
    /// How many must agree from then on [default: as many as in the strictest of the sets]
    #[arg(long, value_name = "K")]
    threshold: Option<usize>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Settled {
    version: u64,
    head: u64,
    threshold: usize,
    signers: Vec<String>,
    rivals: Vec<RivalTold>,
    left_out: Vec<LeftOutTold>,
    /// What ends with it, unless it is carried over.
    ends: Vec<Ending>,
    #[serde(flatten)]
    pending: Left,
}

#[derive(Serialize)]
struct RivalTold {
    id: String,
    threshold: usize,
    signers: Vec<String>,
    known_since: Option<String>,
    /// The highest head that it signed.
    head: Option<HeadTold>,
}

#[derive(Serialize)]
struct HeadTold {
    version: u64,
    issued_at: String,
    digest: String,
}

#[derive(Serialize)]
struct LeftOutTold {
    name: String,
    why: String,
}

impl Settle {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not settle who signs";
        let terms = SettleTerms { threshold: self.threshold, without: self.without };
        let (mut session, keys) = common.signing_session_with_all(doing).await?;
        let Some(shown) = settling(&mut session, &terms).await.during(doing)? else {
            return Err(Failure::refused(doing, "no two signer sets claim one place here").hint(
                "see who signs: freehold signer list; if machines elsewhere follow other signers, each side changes its own \
                 until both have the same: freehold signer add, freehold signer remove",
            ));
        };
        let ends = ends_with(&mut session, &shown.set.quorum).await.during(doing)?;
        if !common.json {
            eprintln!("{}", in_words(&shown));
            tell_ends(&ends);
        }
        let consent = Consent { common, doing, yes: self.yes, question: "Sign this set, in place of all of them?" };
        let draft = |session: &Session, now| Ok(first_head(session, &shown, now)?.roll);
        let sign = async |session: &mut Session| settle(session, &keys, &terms, &shown).await;
        let (head, pending) = consent.sign(&mut session, draft, sign).await?;
        let result = Settled::of(&shown, head, ends, pending);
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                let (k, n) = (result.threshold, result.signers.len());
                format!(
                    "settled: signer set {} is in force for everybody (head {}): {k} of {n} must agree: {}",
                    result.version,
                    result.head,
                    result.signers.join(", ")
                )
            })
        });
        Ok(())
    }
}

impl Settled {
    fn of(settling: &Settling, head: u64, ends: Vec<Ending>, pending: Left) -> Self {
        let left_out = settling.left_out.iter();
        Self {
            version: settling.set.version,
            head,
            threshold: settling.set.quorum.threshold(),
            signers: settling.set.quorum.signers().iter().map(|signer| signer.name.to_string()).collect(),
            rivals: settling.rivals.iter().map(RivalTold::of).collect(),
            left_out: left_out
                .map(|(name, why)| LeftOutTold { name: name.to_string(), why: why.to_string() })
                .collect(),
            ends,
            pending,
        }
    }
}

impl RivalTold {
    fn of(rival: &Rival) -> Self {
        let head = rival.head.map(|head| HeadTold {
            version: head.version,
            issued_at: head.issued_at.to_string(),
            digest: head.digest.to_string(),
        });
        Self {
            id: rival.set.id.to_string(),
            threshold: rival.set.quorum.threshold(),
            signers: rival.set.quorum.signers().iter().map(|signer| signer.name.to_string()).collect(),
            known_since: rival.since.map(|since| since.to_string()),
            head,
        }
    }
}

fn in_words(settling: &Settling) -> String {
    let mut lines = vec!["These signer sets claim one place:".to_owned()];
    lines.extend(settling.rivals.iter().map(rival_in_words));
    let (quorum, names) = (&settling.set.quorum, names(&settling.set.quorum));
    let (k, n) = (quorum.threshold(), quorum.signers().len());
    lines.push(format!("Signer set {} would follow them all: {names}; {k} of {n} must agree", settling.set.version));
    lines.extend(settling.left_out.iter().map(|(name, why)| format!("  without `{name}`: {why}")));
    lines.join("\n")
}

fn rival_in_words(rival: &Rival) -> String {
    let (k, n) = (rival.set.quorum.threshold(), rival.set.quorum.signers().len());
    let since = rival.since.map(|since| format!(", known here since {since}")).unwrap_or_default();
    let head = rival.head.map_or_else(
        || "no head of theirs is here".to_owned(),
        |head| format!("their last head is {}, of {}", head.version, head.issued_at),
    );
    format!("  {}: {k} of {n} must agree{since}; {head}", names(&rival.set.quorum))
}
