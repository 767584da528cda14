//! Hearing news: authority first, then what this node should be.

use std::sync::PoisonError;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::time::{Seconds, Timestamp};
use org::report::{Refused, plain};
use wire::known::Known;

use crate::agent::errand::{Answer, Asked};
use crate::agent::status::Status;
use crate::agent::{Agent, Line, told};
use crate::apply::engine::{ApplyError, Engine, Offered};
use crate::apply::preview::Ground;
use crate::apply::trial::Outcome;
use crate::ask::error::AskError;
use crate::ask::keep;
use crate::ask::source::Source;
use crate::ask::sync::{self, Listed, Wants};
use crate::ask::tree;
use crate::store::refused;

/// An operator's clock and this one may be so far apart.
const CLOCKS: Seconds = Seconds::MINUTE.times(5);

impl Agent {
    /// Waits for news and takes them: authority first, then what this node should be. If the clocks are apart, it says
    /// so.
    pub(super) async fn hear(&mut self, line: &mut Line) -> Result<Option<String>, AskError> {
        // Making the connection may have brought a newer head: nobody is told of it before the tunnel goes by it.
        self.feed_tunnel_anew().await;
        let now = clock::now();
        let before = self.told.as_ref().and_then(|told| told.refused_lately(now));
        let roots = keep::trust_told(&self.scope, &self.node, &line.known)?;
        let (so_far, refused) = ((&line.known, self.scope.left()), self.refused.as_ref().or(before));
        let told = told::of(&self.node, so_far, (&self.engine.view(), roots), refused);
        let report = self.told.as_ref().is_none_or(|last| *last != told);
        let said_at = report.then(|| self.next_word_at(now));
        let report = said_at.map(|at| told.signed(&self.scope, at)).transpose()?;
        let trial = self.engine.view().trial;
        // Whoever has something to say does not wait with it, nor right after a connection was made.
        let at_once = report.is_some() || self.errand.is_some();
        let wait = if at_once { Seconds(0) } else { self.patience(now) };
        let wants = Wants {
            listed: self.listed,
            have: self.engine.have(),
            waits_for: trial.map(|trial| trial.digest),
            rivals: line.rivals,
            suspended: line.suspended,
            wait,
            report,
        };
        let (under, began) = (self.engine.obeyed(), std::time::Instant::now());
        let heard = sync::sync(&self.scope, (&mut line.gateway, &line.known), &self.node.name, wants).await?;
        let now = clock::now();
        let known_so = |version: u64| heard.listed.is_none() || self.listed == version;
        let silent = heard.known.head.digest == line.known.head.digest && known_so(heard.known.head.head.version);
        self.quiet = silent && wait > Seconds(0) && began.elapsed() < Duration::from_secs(1);
        self.told = Some(told);
        // Other signers may count from the beginning, and two heads may stand at one place.
        if heard.known.head.digest != line.known.head.digest {
            self.listed = 0;
        }
        (line.known, line.rivals, line.suspended) = (heard.known, heard.rivals, heard.suspended);
        if let Some(under) = under {
            let fresh = line.under == Some(under);
            self.note(|engine| engine.reached(under, fresh, now));
        }
        if let Some((consent, at)) = heard.consent
            && self.engine.view().trial.is_some_and(|trial| at + CLOCKS >= trial.started)
        {
            // A word about an earlier trial of the same says nothing about this one.
            self.note(|engine| engine.consent(consent, now));
        }
        if let Some(listed) = heard.listed {
            self.take(&line.known, listed, now);
        }
        self.engine.tick(now);
        // Whatever is reported from here on is so.
        self.feed_tunnel_anew().await;
        self.show_applied();
        Ok(heard.apart)
    }

    /// Of two words within one second, told to two gateways, the second must be the later one to both.
    fn next_word_at(&mut self, now: Timestamp) -> Timestamp {
        let lately = self.said_at >= now && self.said_at.since(now) < Seconds::MINUTE;
        self.said_at = if lately { self.said_at + Seconds(1) } else { now };
        self.said_at
    }

    /// What is read instead of asking a gateway, now. A trial may want a gateway all the same.
    pub(super) fn source(&self) -> Option<Source> {
        let asked = self.errand.as_ref().and_then(|asked| asked.errand.from.clone());
        let trial = self.engine.view().trial;
        let usual = || self.options.from.clone().filter(|_| trial.is_none_or(|trial| !trial.needs_gateway));
        asked.or_else(usual)
    }

    /// As `hear`, from a static tree.
    pub(super) async fn hear_tree(&mut self, source: &Source) -> Result<(Known, Option<String>), AskError> {
        // What a connection knew may be less.
        self.line = None;
        let tree::Told { known, listed, trust } = tree::read(&self.scope, &self.node, source).await?;
        self.check_own_key(&known)?;
        let now = clock::now();
        self.take(&known, listed, now);
        self.engine.tick(now);
        self.keep_given_trust(&known, &trust).await;
        self.show_applied();
        Ok((known, None))
    }

    /// What the head in force says that this node should be: tried, or only weighed if somebody asked for no more.
    pub(super) fn take(&mut self, known: &Known, listed: Result<Listed, AskError>, now: Timestamp) {
        let head = known.head.head.version;
        let urged = self.errand.as_ref().and_then(|asked| asked.errand.urge());
        let dry = self.errand.as_ref().is_some_and(|asked| asked.errand.dry_run);
        let taken = match listed {
            Err(why) => Err(describe(&why)),
            Ok(Listed::Nothing) if dry => Ok(Some(Ground::of(&self.engine).nothing(head))),
            Ok(Listed::Nothing) => Ok(None),
            Ok(Listed::Manifest { digest, bytes }) => {
                let bytes = bytes.or_else(|| self.engine.bytes_of(digest)).unwrap_or_default();
                let offered = Offered { digest, bytes: &bytes, head, urged };
                let taken = if dry {
                    Ground::of(&self.engine).preview(offered, now).map(Some)
                } else {
                    self.engine.offer(offered, now).map(|_| None)
                };
                taken.map_err(|why| describe(&why))
            }
        };
        match taken {
            Err(why) => self.refuse(now, known.head.head.issued_at, &why),
            Ok(Some(preview)) => {
                if let Some(asked) = &mut self.errand {
                    asked.preview = Some(preview);
                }
            }
            Ok(None) => {
                self.listed = head;
                self.remember_refusal(None);
            }
        }
    }

    /// Said to people and to the operators; asked for again with the next exchange, and not without end.
    pub(super) fn refuse(&mut self, at: Timestamp, since: Timestamp, why: &str) {
        tracing::error!(why, "what is offered is refused");
        self.quiet = true;
        // Whoever tells the truth next is to say it, even if it was known before.
        self.listed = 0;
        let why = plain(why);
        // What is said again is no news, unless there is a new head since.
        if self.refused.as_ref().is_none_or(|refused| refused.why != why || refused.at < since) {
            self.remember_refusal(Some(Refused { at, why }));
        }
    }

    fn remember_refusal(&mut self, refused: Option<Refused>) {
        if self.refused != refused {
            if let Err(why) = refused::save(&self.scope, refused.as_ref()) {
                tracing::warn!(why = describe(&why), "what was refused could not be written down");
            }
            self.refused = refused;
        }
    }

    fn note(&mut self, act: impl FnOnce(&mut Engine) -> Result<Outcome, ApplyError>) {
        if let Err(why) = act(&mut self.engine) {
            tracing::error!(why = describe(&why), "where this node stands could not be written down");
        }
    }

    /// Somebody does not want to wait.
    pub(super) fn take_errand(&mut self, asked: Asked) {
        self.errand = Some(asked);
        (self.listed, self.failures, self.next_check_in) = (0, 0, None);
    }

    /// The exchange that an errand wanted took place, or could not.
    pub(super) fn report_back(&mut self, failed: Option<String>) {
        if let Some(Asked { answer, preview, .. }) = self.errand.take() {
            self.show_applied();
            let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Whoever asked may have gone away.
            let _ = answer.send(Answer { status: Status { running: true, ..status }, failed, preview });
        }
    }
}
