//! `freehold rollback`: a new head that says again what an earlier one said of the fleet.

use clap::Args;
use operate::publish::{plan, rollback};
use operate::session::Session;
use terminal::failure::Failure;
use terminal::show::show;

use crate::commands::fleet::publish::{How, Outcome, finish};
use crate::home::{Common, During};
use crate::planning;
use crate::waiting::{Consent, leave};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold rollback                 to the fleet that was published before the present one
  freehold rollback --to 41 --yes
  freehold rollback --to 41 --dry-run     only says what it would do, and the members' map that would be signed

Versions only rise: this is a new head. Revocations, mandates and signers stay as they are; so do keys of machines that
were replaced since. The files of the fleet are not touched: mend them before the next publish.")]
pub struct Rollback {
    /// The head to go back to [default: the last that published another fleet]
    #[arg(long, value_name = "HEAD")]
    to: Option<u64>,
    /// Only say what it would do: whoever is to sign another's compares the members' map
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: How,
}

impl Rollback {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not roll back";
        if self.dry_run {
            return self.look(common, doing).await;
        }
        let (mut session, keys) = common.signing_session(doing).await?;
        let to = rollback::head_before(&mut session, self.to).await.during(doing)?;
        let Some(root) = to.members else {
            return Err(Failure::refused(doing, format!("head {} published no fleet", to.version)));
        };
        let prepared = plan::rollback(&mut session, root, planning::progress("folding entries:")).await;
        let prepared = prepared.during(doing)?;
        if !common.json {
            let commit = to.fleet.as_ref().and_then(|fleet| fleet.commit.as_ref());
            let commit = commit.map(|commit| format!(", commit {commit}")).unwrap_or_default();
            eprintln!("back to what head {} said, of {}{commit}", to.version, to.issued_at);
            eprintln!("{}", planning::in_words(&session, &prepared));
        }
        prepared.check_gone(&self.how.without).during(doing)?;
        let consent = Consent { common, doing, yes: self.how.yes, question: "Go back to it?" };
        let before = prepared.root_before();
        let draft =
            |session: &Session, now| Ok(rollback::head_back(session, &prepared.compiled, &to, before, now)?.roll);
        consent.ask(&mut session, draft).await?;
        let progress = planning::progress("handing in:");
        let made = rollback::roll_back(&mut session, &keys, &prepared.compiled, &to, before, progress).await;
        let made = made.during(doing)?;
        let pending = leave(common, doing, &session.known, &made)?;
        finish(
            common,
            &mut session,
            Outcome { doing, head: made.what, pending, patterns: Vec::new(), prepared, how: self.how },
        )
        .await
    }

    /// Nothing is signed.
    async fn look(&self, common: &Common, doing: &str) -> Result<(), Failure> {
        let mut session = common.session(doing).await?;
        let to = rollback::head_before(&mut session, self.to).await.during(doing)?;
        let root = to.members.ok_or_else(|| Failure::refused(doing, "that head published no fleet"))?;
        let prepared = plan::rollback(&mut session, root, planning::progress("folding entries:")).await;
        let prepared = prepared.during(doing)?;
        show(common.json, &planning::as_facts(&session, &prepared), || {
            let (words, root) = (planning::in_words(&session, &prepared), prepared.compiled.root);
            format!("back to what head {} said\n{words}\nthe members' map would be {root}", to.version)
        });
        Ok(())
    }
}
