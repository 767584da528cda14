//! `freehold recover`: the signers are lost; the recovery phrases name new ones.

use std::path::{Path, PathBuf};

use clap::Args;
use ground::passphrase::Passphrase;
use ground::{clock, file};
use identity::envelope::Envelope;
use identity::key::{EdKey, PublicKey};
use identity::principal::{NodeName, SignerName};
use identity::signers::{Signer, SignerSet};
use identity::time::Timestamp;
use operate::folder::OperatorFolder;
use operate::replica::roll::names;
use operate::session::Session;
use operate::signer;
use operate::signer::Change;
use operate::signer::home::KeyOwner;
use operate::signer::recover::{self, Begun, Recoverer, RecoveryWish};
use org::ledger::step::SignerStep;
use serde::Serialize;
use terminal::again::patiently;
use terminal::confirm::confirm;
use terminal::failure::{Exit, Failure};
use terminal::phrase::{NoPhrase, PhrasePrompt};
use terminal::screen::Live;
use terminal::show::show;
use wire::known::Known;
use wire::known::freeze::Freeze;
use zeroize::Zeroizing;

use crate::commands::signer::own::{NoSignerKey, Owner};
use crate::found::anew;
use crate::found::recovery::{BadPhrase, Typed, WORDS, word_list};
use crate::home::{Common, During};
use crate::waiting::{Consent, Left, leave, of_org, told};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold recover --signer ann-2025                  asks for two of the phrases, word by word, and begins
  freehold recover                                    after the delay: the new signer takes over
  freehold recover --wait                             begins or goes on, and waits for the moment
  freehold recover --cancel                           current signers who are not lost stop it

Where two signer sets claim one place, the same command settles it for everybody, after the delay: neither signs any more. If
those who sign for both of them agree, they need no phrases and no delay: freehold signer settle.

From the moment it begins, every machine and every operator that hears of it shouts, and counts the delay for itself.
It can be stopped until then by the signers whom it would replace.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub struct Recover {
    /// The name of the new signer; its key is made here
    #[arg(long, value_name = "NAME")]
    signer: Option<SignerName>,
    /// Other new signers, with the keys that they made; may be repeated
    #[arg(long = "with", value_name = "NAME=KEY", value_parser = parse_signer)]
    others: Vec<Signer>,
    /// How many of the new signers must agree
    #[arg(long, value_name = "K", default_value = "1")]
    threshold: usize,
    /// Read the phrases from a private file, one a line, instead of asking
    #[arg(long, value_name = "FILE")]
    phrases_file: Option<PathBuf>,
    /// Show the phrases while they are typed, where nobody looks over your shoulder
    #[arg(long, conflicts_with = "phrases_file")]
    show_phrases: bool,
    /// The org's card, if this home does not know the org
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// Keep the new key unencrypted
    #[arg(long, conflicts_with = "passphrase_file")]
    unprotected: bool,
    /// Wait until the delay is over, and finish
    #[arg(long)]
    wait: bool,
    /// Stop a recovery: the signers are not lost
    #[arg(long, conflicts_with_all = ["signer", "phrases_file", "show_phrases", "card", "wait"])]
    cancel: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

fn parse_signer(text: &str) -> Result<Signer, String> {
    let (name, key) = text.split_once('=').ok_or("write NAME=KEY")?;
    let name = name.parse().map_err(|why: identity::principal::BadName| why.to_string())?;
    Ok(Signer { name, key: key.parse().map_err(|_| "this is no public key")? })
}

#[derive(Serialize)]
struct Told {
    state: &'static str,
    /// When the new signers take over, as the gateway counts.
    due_at: Option<String>,
    signers: Vec<String>,
    threshold: usize,
    head: Option<u64>,
    /// Machines that the lost signers let in, and that the first head of the new ones lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    taken_over: Vec<String>,
    #[serde(flatten)]
    pending: Left,
}

impl Recover {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not recover the org";
        if self.cancel {
            return cancel(common, self.yes).await;
        }
        let (folder, known) = self.home(common, doing)?;
        let mut desk = common.recovering_desk(&known.founding.record.name, doing).await?;
        let newest = desk.newest(&known).await;
        let known = recover::learn(&folder, known, newest).during(doing)?;
        let wish = RecoveryWish { signer: self.signer.clone(), others: self.others.clone(), threshold: self.threshold };
        let owner = Owner { common, unprotected: self.unprotected, doing };
        let (phrases_file, show_phrases) = (self.phrases_file.as_deref(), self.show_phrases);
        let person = Person { owner, phrases_file, show_phrases, yes: self.yes };
        let begun = recover::take_up(&folder, &known, wish, &person).map_err(|why| why.failure(doing))?;
        let Begun { recovery, set } = begun;
        let due_at = recover::begin(&mut desk, &recovery).await.during(doing)?;
        drop(desk);
        if clock::now() < due_at {
            if !self.wait {
                tell_waiting(common, &recovery, &set, due_at);
                return Ok(());
            }
            wait_until(common, due_at).await;
        }
        self.finish(common, &recovery, &set, doing).await
    }

    /// This home as it is, or made from a card, or from the gateway's folder beside it.
    fn home(&self, common: &Common, doing: &str) -> Result<(OperatorFolder, Known), Failure> {
        if let Some(path) = &self.card {
            anew::from_card(&common.home(), path).during(doing)?;
        }
        let org = common.org(doing).map_err(|why| why.hint("start from the org's card: --card FILE"))?;
        anew::open(&common.home(), &org).during(doing)
    }

    async fn finish(&self, common: &Common, recovery: &Envelope, set: &SignerSet, doing: &str) -> Result<(), Failure> {
        let (mut session, keys) = common.signing_session_with_all(doing).await?;
        let mut taken_over = Vec::new();
        let first = |session: &Session, now| {
            let (next, machines) = recover::draft_first(session, now)?;
            taken_over = machines;
            Ok(next.roll)
        };
        if !self.yes {
            session.foretell(first).await;
        }
        if !taken_over.is_empty() && !common.json {
            eprintln!("They take over what the lost signers let in since their last head: {}", names(&taken_over));
        }
        confirm(self.yes, doing, &of_org(common, &session.known, "Sign their first head?"))?;
        let made = recover::finish(&mut session, &keys, recovery).await.during(doing)?;
        let pending = leave(common, doing, &session.known, &made)?;
        let result = Told {
            state: if pending.waiting().is_some() { "pending" } else { "done" },
            due_at: None,
            signers: names_of(set),
            threshold: set.quorum.threshold(),
            head: Some(made.what.head),
            taken_over: made.what.taken_over.iter().map(NodeName::to_string).collect(),
            pending,
        };
        show(common.json, &result, || {
            told(result.pending.waiting(), || {
                let (names, version) = (result.signers.join(", "), set.version);
                let done =
                    format!("recovered: {names} sign from now on (signer set {version}, head {})", made.what.head);
                if result.taken_over.is_empty() {
                    return done;
                }
                let machines = result.taken_over.join(", ");
                format!(
                    "{done}\nThey take over what the lost signers let in since their last head: {machines}\nIf you do not know \
                     one of them: freehold node revoke NAME"
                )
            })
        });
        Ok(())
    }
}

/// Whoever recovers, at this machine.
struct Person<'a> {
    owner: Owner<'a>,
    phrases_file: Option<&'a Path>,
    show_phrases: bool,
    yes: bool,
}

/// Why a phrase that was asked for is not there.
#[derive(Debug, thiserror::Error)]
enum Untyped {
    #[error(transparent)]
    Bad(#[from] BadPhrase),
    #[error(transparent)]
    Not(#[from] NoPhrase),
}

impl KeyOwner for Person<'_> {
    type Stop = NoSignerKey;

    fn public_key(&self, folder: &OperatorFolder, name: &SignerName) -> Result<PublicKey, NoSignerKey> {
        self.owner.public_key(folder, name)
    }

    fn new_passphrase(&self) -> Result<Option<Passphrase>, NoSignerKey> {
        self.owner.new_passphrase()
    }
}

fn untyped(doing: &str, why: &NoPhrase) -> Failure {
    let failure = Failure::new(doing, why);
    match why {
        NoPhrase::NoTerminal(_) => failure.exit(Exit::Usage).hint("give them with --phrases-file FILE"),
        NoPhrase::Unreadable(_) | NoPhrase::BrokenOff => failure,
    }
}

impl Recoverer for Person<'_> {
    fn phrases(&self, known: &Known) -> Result<Vec<EdKey>, NoSignerKey> {
        let quorum = &known.founding.record.recovery;
        let mut typed = Typed::new(quorum);
        let doing = self.owner.doing;
        let bad = |why: BadPhrase| Failure::new(doing, &why).exit(Exit::Refused);
        if let Some(path) = self.phrases_file {
            let text = file::read_secret(path).during(doing)?;
            let text = Zeroizing::new(String::from_utf8_lossy(&text).into_owned());
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                typed.take(line).map_err(bad)?;
            }
        } else {
            let prompt = PhrasePrompt::open(self.show_phrases);
            let mut prompt = prompt.map_err(|why| untyped(doing, &why))?;
            while typed.count() < quorum.threshold() {
                let which = format!("recovery phrase {} of {}", typed.count() + 1, quorum.threshold());
                let wrong = |why: &Untyped| match why {
                    Untyped::Bad(why) => Some(why.to_string()),
                    Untyped::Not(_) => None,
                };
                let taken = patiently(true, wrong, || {
                    let words = prompt.ask(&which, word_list(), WORDS)?;
                    Ok(typed.take(&words)?)
                });
                match taken {
                    Ok(()) => {}
                    Err(Untyped::Bad(why)) => return Err(bad(why).into()),
                    Err(Untyped::Not(why)) => return Err(untyped(doing, &why).into()),
                }
            }
        }
        Ok(typed.enough().map_err(bad)?)
    }

    fn agree(&self, known: &Known, signers: &[&SignerName]) -> Result<(), NoSignerKey> {
        let Owner { common, doing, .. } = self.owner;
        if !common.json {
            let names: Vec<&str> = signers.iter().map(|name| name.as_str()).collect();
            foretell_begin(known, &names.join(", "));
        }
        Ok(confirm(self.yes, doing, &of_org(common, known, "Begin?"))?)
    }
}

/// What it would do, and to whom.
fn foretell_begin(known: &Known, names: &str) {
    let (org, delay) = (&known.founding.record.name, known.founding.record.recovery_delay);
    if let Some(freeze) = Freeze::of(known, clock::now()) {
        eprintln!("Two signer sets of `{org}` claim one place: {}.", freeze.rivals.join(" | "));
        eprintln!("Once this takes effect neither of them signs any more: {names} will.");
        eprintln!("Every machine and operator is told. It ends this for everybody in {delay}.");
        return;
    }
    eprintln!("The signers of `{org}` are to be replaced by: {names}");
    eprintln!("Every machine and operator is told. It takes effect in {delay}, unless the signers stop it.");
}

fn names_of(set: &SignerSet) -> Vec<String> {
    set.quorum.signers().iter().map(|signer| signer.name.to_string()).collect()
}

fn tell_waiting(common: &Common, recovery: &Envelope, set: &SignerSet, due_at: Timestamp) {
    let settles = SignerStep::read(set.org, recovery).is_ok_and(|step| step.settles);
    let meanwhile = if settles {
        "Until then no new head is followed."
    } else {
        "Until then the signers of now can stop it: freehold recover --cancel"
    };
    let result = Told {
        state: "waiting",
        due_at: Some(due_at.to_string()),
        signers: names_of(set),
        threshold: set.quorum.threshold(),
        head: None,
        taken_over: Vec::new(),
        pending: Left::default(),
    };
    show(common.json, &result, || {
        format!(
            "the recovery has begun: {} take over at {due_at}.\nRun `freehold recover` again then. {meanwhile}",
            result.signers.join(", ")
        )
    });
}

async fn wait_until(common: &Common, due_at: Timestamp) {
    let mut live = Live::new().filter(|_| !common.json);
    loop {
        let now = clock::now();
        if now >= due_at {
            break;
        }
        if let Some(live) = &mut live {
            live.draw(&[format!("waits until {due_at}: {} to go", due_at.since(now))]);
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// The signers are there: they sign their own successor, and the recovery has nothing left to replace.
async fn cancel(common: &Common, yes: bool) -> Result<(), Failure> {
    let doing = "could not stop the recovery";
    let (mut session, keys) = common.signing_session(doing).await?;
    if session.known.alarms().is_empty() {
        return Err(Failure::refused(doing, "no recovery waits"));
    }
    let consent = Consent { common, doing, yes, question: "Stop it? The signers stay as they are." };
    let draft = |session: &Session, now| Ok(signer::draft(session, &Change::Keep, None, now)?.roll());
    let sign = async |session: &mut Session| signer::change(session, &keys, &Change::Keep, None).await;
    let (quorum, pending) = consent.sign(&mut session, draft, sign).await?;
    let result = Told {
        state: if pending.waiting().is_some() { "pending" } else { "cancelled" },
        due_at: None,
        signers: quorum.signers().iter().map(|signer| signer.name.to_string()).collect(),
        threshold: quorum.threshold(),
        head: Some(session.known.head.head.version),
        taken_over: Vec::new(),
        pending,
    };
    show(common.json, &result, || {
        told(result.pending.waiting(), || {
            "stopped: the signers stay. If you did not begin it, somebody has two recovery phrases: the org should get new ones"
                .to_owned()
        })
    });
    Ok(())
}
