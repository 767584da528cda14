//! Looking what is so: a gateway's survey, held against what this home knows, and remembered.

use ground::clock;
use identity::envelope::Envelope;
use org::ledger::frontier::Tip;
use org::report::Report;
use wire::control::{Call, ControlAnswer, Survey};
use wire::known::BadKnowledge;

use crate::folder::{Memory, OperatorFolder};
use crate::session::reports::{Heard, reports};
use crate::session::timely::{self, Reliance};
use crate::session::{Desk, DeskError, OperateError, Result, Session, bundles, lacking};

/// No org publishes so often: whoever claims to be further ahead than this wants to use the numbers up.
const LARGEST_JUMP: u64 = 1_000_000;

impl Session {
    /// Looks what is so, takes over what this home lacks, and hands over what the gateway lacks.
    pub async fn begin(folder: OperatorFolder, desk: impl Desk + 'static) -> Result<Self> {
        let mut desk: Box<dyn Desk> = Box::new(desk);
        let (known, memory) = (folder.known()?, folder.memory()?);
        let survey = ask_survey(desk.as_mut(), &memory).await?;
        let newest = timely::newest(&known, &memory);
        let mut session = Self {
            folder,
            known,
            survey,
            memory,
            newest,
            reliance: Reliance::Doubted,
            teller: |_| {},
            told: None,
            desk,
            mark: None,
            fold: None,
            extent: None,
            handed_in: None,
            read_map: None,
            odd_marks: Vec::new(),
            copy_trouble: None,
        };
        session.compare().await?;
        Box::pin(session.pull()).await;
        bundles::keep_trusted(&mut session).await?;
        Ok(session)
    }

    pub(crate) async fn look_again(&mut self) -> Result<()> {
        self.survey_again().await?;
        self.compare().await
    }

    pub(crate) async fn survey_again(&mut self) -> Result<()> {
        self.survey = ask_survey(self.desk.as_mut(), &self.memory).await?;
        Ok(())
    }

    /// A gateway that lacks something is handed it, not accused.
    async fn compare(&mut self) -> Result<()> {
        if !self.is_alone() {
            // What cannot be handed over now is by the next command.
            let _lacks = Box::pin(lacking::hand_lacking(self)).await;
        }
        self.take_in()?;
        self.weigh_mark().await
    }

    /// Checks a survey against what is known, then remembers it.
    fn take_in(&mut self) -> Result<()> {
        let known = match self.known.advance(&self.survey.signers, Some(&self.survey.head), clock::now()) {
            Ok(known) => known,
            // Whoever stands still may look; nothing is signed meanwhile.
            Err(why @ BadKnowledge::Frozen { .. }) => {
                self.known.heed(&why, clock::now()).unwrap_or_else(|| self.known.clone())
            }
            Err(why) => {
                // A recovery took effect unseen by this home, which counts from now on.
                if let Some(noticed) = self.known.heed(&why, clock::now()) {
                    self.known = noticed;
                    self.remember(|_| {})?;
                }
                return Err(why.into());
            }
        };
        // The gateway stands by what it says of its own chain, so that it can be confronted with it later.
        let mandates = known.head.head.mandates.iter().filter(|mandate| mandate.gateway == self.survey.gateway);
        let open = |tip: &Envelope| {
            let mut voices = mandates.clone().map(|mandate| mandate.voice);
            voices.find_map(|voice| tip.open_signed_by::<Tip>(Some(known.org()), &[voice]).ok())
        };
        let newer = match &self.survey.tip {
            None => false,
            Some(tip) => {
                let told = open(tip).ok_or(OperateError::LedgerBehind)?;
                let kept = self.folder.memory()?.tip.as_ref().and_then(open);
                // Of two about the same place the older one stays: it says when the place was first seen.
                kept.is_none_or(|kept| kept.voice != told.voice || kept.place.seq < told.place.seq)
            }
        };
        // Whoever hears of a recovery counts from then.
        let recoveries = self.survey.recoveries.iter();
        let noticed = recoveries.fold(known, |known, view| known.notice(&view.recovery, clock::now()).unwrap_or(known));
        self.known = noticed;
        let survey = self.survey.clone();
        self.remember(|memory| {
            memory.schema = 1;
            if newer {
                memory.tip = survey.tip;
            }
            memory.gateway = Some(survey.gateway);
            memory.gateways = survey.addresses;
        })
    }

    /// Changes what is remembered, on top of what other commands have written meanwhile. What is known never goes back.
    pub(super) fn remember(&mut self, change: impl FnOnce(&mut Memory)) -> Result<()> {
        let locked = self.folder.lock_files()?;
        let mut memory = self.folder.memory()?;
        change(&mut memory);
        self.folder.save_memory(&memory)?;
        self.memory = memory;
        let kept = self.folder.keep_known(self.known.clone(), &locked)?;
        if kept.head.digest == self.known.head.digest {
            self.known = kept;
        }
        Ok(())
    }

    /// Finds out whether a member has a head above the one in force: the next version must exceed it, or that node
    /// would never take it. Nothing is asked unless somebody claims so.
    async fn weigh_mark(&mut self) -> Result<()> {
        self.mark = None;
        self.odd_marks.clear();
        let now = self.known.head.head.version;
        let claimed = self.survey.mark.as_ref().and_then(|mark| mark.peek::<Report>(Some(self.known.org())).ok());
        if claimed.is_none_or(|claimed| claimed.head.version <= now) {
            return Ok(());
        }
        // The one that claims most may lie, and hide another that does not: all are looked at.
        let (reports, _) = reports(self, 0).await?;
        let mut ahead: Vec<&Heard> = reports.values().filter(|heard| heard.report.head.version > now).collect();
        ahead.sort_by_key(|heard| std::cmp::Reverse(heard.report.head.version));
        for Heard { report, .. } in ahead {
            let (name, version) = (&report.node, report.head.version);
            if version - now > LARGEST_JUMP {
                self.odd_marks.push(format!(
                    "`{name}` says that it has head {version}, which cannot be: it is not heeded. Look at that machine."
                ));
                continue;
            }
            if self.is_members(report).await {
                self.mark = Some(version);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Was the key that made this report let in, under this name, and not revoked?
    async fn is_members(&mut self, report: &Report) -> bool {
        let key = report.node_key.digest();
        // Whoever has no ledger signs nothing, and heeds no mark.
        let Ok(state) = Box::pin(self.folded()).await else { return false };
        let let_in = state.members.get(&key).is_some_and(|member| member.claim().name == report.node);
        let_in && !state.is_gone(key)
    }
}

async fn ask_survey(desk: &mut dyn Desk, memory: &Memory) -> Result<Survey> {
    match desk.ask(Call::Survey { tip: memory.tip.clone() }).await? {
        ControlAnswer::Survey(survey) => Ok(*survey),
        _ => Err(DeskError::OtherAnswer.into()),
    }
}
