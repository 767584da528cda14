//! Hearing news (the reconciliation loop): authority first, then what this node should be.

use std::sync::PoisonError;
use std::time::Duration;

use ground::clock;
use identity::causes::describe;
use identity::time::{Seconds, Timestamp};
use org::report::{Refused, plain};
use wire::known::Known;

use crate::agent::errand::{Asked, ErrandAnswer};
use crate::agent::placed::programs;
use crate::agent::schedule::Event;
use crate::agent::status::NodeStatus;
use crate::agent::told::{Knows, Told};
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
use crate::store::scope::{Scope, ScopeError};

/// An operator's clock and this one may be so far apart.
const CLOCKS: Seconds = Seconds::MINUTE.times(5);

/// What gateways offered this node to be.
#[derive(Debug)]
pub(super) struct Offers {
    /// The head for which the listing is known.
    listed: u64,
    /// Why the last one was not believed.
    refused: Option<Refused>,
}

impl Offers {
    pub(super) fn read(scope: &Scope) -> Result<Self, ScopeError> {
        Ok(Self { listed: 0, refused: refused::load(scope)? })
    }

    pub(super) const fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// Whoever tells it next is to say it, even if it was known before.
    pub(super) const fn forget_listing(&mut self) {
        self.listed = 0;
    }
}

impl Agent {
    /// How this node is, for the gateway and the operators.
    fn what_to_tell(&self, line: &Line, now: Timestamp) -> Result<Told, AskError> {
        let before = self.reports.last().and_then(|told| told.refused_lately(now));
        let trust = keep::trust_told(&self.scope, &self.node, &line.known)?;
        let (left, refused) = (self.scope.left(), self.offers.refused().or(before));
        let programs = {
            let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
            programs::troubles(&status.programs)
        };
        let view = self.engine.view();
        let knows = Knows { left, view: &view, trust, refused, programs };
        Ok(told::of(&self.node, &line.known, knows).found(self.beside(line)))
    }

    /// Waits for news and takes them: authority first, then what this node should be. If the clocks are apart, it says
    /// so.
    pub(super) async fn hear(&mut self, line: &mut Line) -> Result<Option<String>, AskError> {
        // Making the connection may have brought a newer head: nobody is told of it before the tunnel goes by it.
        self.feed_tunnel_anew().await;
        let now = clock::now();
        let told = self.what_to_tell(line, now)?;
        let report = self.reports.last().is_none_or(|last| *last != told);
        let said_at = report.then(|| self.reports.next_at(now));
        let report = said_at.map(|at| told.signed(&self.scope, at)).transpose()?;
        let trial = self.engine.view().trial;
        // What is said goes with the question that waits: ten thousand nodes ask half as often. But whoever made a connection
        // just now, or has something on trial, wants to hear that it was heard.
        let unheard = !line.used || trial.is_some() || self.trust_is_on_trial();
        let at_once = self.errand.is_some() || (report.is_some() && unheard);
        let wait = if at_once { Seconds(0) } else { self.patience(now) };
        let wants = Wants {
            listed: self.offers.listed,
            have: self.engine.have(),
            waits_for: trial.map(|trial| trial.digest),
            rivals: line.rivals,
            suspended: line.suspended,
            wait,
            report,
        };
        let (under, began) = (self.engine.obeyed(), std::time::Instant::now());
        let heard = sync::sync(&self.scope, &mut line.gateway, &line.known, &self.node.name, wants).await?;
        line.used = true;
        let now = clock::now();
        let known_so = |version: u64| heard.listed.is_none() || self.offers.listed == version;
        let silent = heard.known.head.digest == line.known.head.digest && known_so(heard.known.head.head.version);
        let quiet = silent && wait > Seconds(0) && began.elapsed() < Duration::from_secs(1);
        self.schedule.note(Event::Heard { quiet }, now);
        self.reports.told(told);
        // Other signers may count from the beginning, and two heads may stand at one place.
        if heard.known.head.digest != line.known.head.digest {
            self.offers.forget_listing();
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
        self.check_peers_port();
        self.engine.tick(now);
        // Whatever is reported from here on is so.
        self.feed_tunnel_anew().await;
        self.show_applied();
        Ok(heard.apart)
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
        let tree::TreeTold { known, listed, trust } = tree::read(&self.scope, &self.node, source).await?;
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
                self.offers.listed = head;
                self.remember_refusal(None);
            }
        }
    }

    /// Said to people and to the operators; asked for again with the next exchange, and not without end.
    pub(super) fn refuse(&mut self, at: Timestamp, since: Timestamp, why: &str) {
        tracing::error!(why, "what is offered is refused");
        self.schedule.note(Event::OfferRefused, at);
        self.offers.forget_listing();
        let why = plain(why);
        // What is said again is no news, unless there is a new head since.
        if self.offers.refused.as_ref().is_none_or(|refused| refused.why != why || refused.at < since) {
            self.remember_refusal(Some(Refused { at, why }));
        }
    }

    fn remember_refusal(&mut self, refused: Option<Refused>) {
        if self.offers.refused != refused {
            if let Err(why) = refused::save(&self.scope, refused.as_ref()) {
                tracing::warn!(why = describe(&why), "what was refused could not be written down");
            }
            self.offers.refused = refused;
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
        self.offers.forget_listing();
        self.schedule.note(Event::Roused, clock::now());
    }

    /// The exchange that an errand wanted took place, or could not.
    pub(super) fn report_back(&mut self, failed: Option<String>) {
        if let Some(Asked { answer, preview, .. }) = self.errand.take() {
            self.show_applied();
            let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Whoever asked may have gone away.
            let _ = answer.send(ErrandAnswer { status: NodeStatus { running: true, ..status }, failed, preview });
        }
    }
}
