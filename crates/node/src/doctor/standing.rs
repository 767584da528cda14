//! What has an end: clock, head, mandates, certificates, SVIDs, each judged by the present moment.

use identity::bundle::Domain;
use identity::causes::describe;
use identity::head::{Head, Mandate};
use identity::time::{Seconds, Timestamp};
use member::store::scope::{ScopeError, Svid};
use org::gateway::ENDS_SOON;
use terminal::finding::Finding;

/// Clocks that differ by less do no harm.
const LEEWAY: Seconds = Seconds::MINUTE;

/// Who looks: an operator renews things, a node's owner asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    Operator,
    Node,
}

impl Viewer {
    fn refresh(self) -> &'static str {
        match self {
            Self::Operator => "renew it: freehold refresh",
            Self::Node => "an operator renews it: freehold refresh; if they did, the gateway holds it back",
        }
    }
}

/// Something that somebody else vouched for, and when.
#[derive(Debug, Clone)]
pub struct Vouched {
    pub what: String,
    pub at: Timestamp,
}

/// The clock against the newest thing that was signed, and against a gateway's.
pub(crate) fn clock(now: Timestamp, newest: Option<&Vouched>, gateways: Option<Timestamp>) -> Finding {
    let subject = "clock";
    let cure = "set it right and keep it so: timedatectl set-ntp true; then run this again";
    if let Some(Vouched { what, at }) = newest.filter(|newest| newest.at > now + LEEWAY) {
        let behind = at.since(now);
        return Finding::wrong(
            subject,
            format!("it is {now} here, but {what} is from {at}: this clock is at least {behind} slow"),
            cure,
        );
    }
    if let (Some(Vouched { what, at }), Some(theirs)) = (newest, gateways)
        && *at > theirs + LEEWAY
    {
        let behind = at.since(theirs);
        return Finding::wrong(
            subject,
            format!(
                "it is {now} here and {theirs} at the gateway, but {what} is from {at}: the gateway's clock is at least \
                 {behind} slow"
            ),
            format!("leave this one; on the gateway's machine {cure}"),
        );
    }
    match gateways {
        Some(theirs) if theirs.since(now).max(now.since(theirs)) > LEEWAY => {
            let (apart, how) =
                if theirs > now { (theirs.since(now), "behind") } else { (now.since(theirs), "ahead of") };
            let found = format!("it is {now} here, {apart} {how} the gateway's clock");
            let compare = "find out which is wrong: compare `date -u` on both with a clock that you trust";
            Finding::wrong(subject, found, format!("{compare}; on that machine {cure}"))
        }
        Some(_) => Finding::ok(subject, format!("it is {now}, here and at the gateway")),
        None => match newest {
            Some(Vouched { what, at }) => Finding::ok(subject, format!("it is {now} here; {what} is from {at}")),
            None => Finding::soon(
                subject,
                format!("it is {now} here, and there is nothing to compare it with"),
                "mend what is wrong below, and run this again",
            ),
        },
    }
}

pub fn head(now: Timestamp, head: &Head, who: Viewer) -> Finding {
    let (version, until) = (head.version, head.fresh_until);
    match left(now, until) {
        None => Finding::wrong(
            "head",
            format!("head {version} was fresh only until {until}: nobody new is let in"),
            who.refresh(),
        ),
        Some(time) if time < Seconds::DAY.times(7) => {
            Finding::soon("head", format!("head {version} is fresh only until {until}"), who.refresh())
        }
        Some(_) => Finding::ok("head", format!("head {version} is fresh until {until}")),
    }
}

/// The mandates of the head that matter here; at least one must be in force.
pub fn mandate<'a>(now: Timestamp, mandates: impl Iterator<Item = &'a Mandate>, who: Viewer) -> Finding {
    let last = mandates.max_by_key(|mandate| (mandate.not_before <= now, mandate.not_after));
    let Some(mandate) = last else {
        return Finding::wrong(
            "mandate",
            "the head has no mandate for this gateway: it can issue nothing",
            "operators must publish one; until then nobody joins or renews",
        );
    };
    let (gateway, from, until) = (&mandate.gateway, mandate.not_before, mandate.not_after);
    match left(now, until) {
        _ if from > now => Finding::wrong(
            "mandate",
            format!("that of `{gateway}` begins only at {from}"),
            "is this clock slow? Set it right: timedatectl set-ntp true",
        ),
        None => Finding::wrong(
            "mandate",
            format!("that of `{gateway}` ended at {until}: it can issue nothing"),
            who.refresh(),
        ),
        Some(time) if time < Seconds::DAY.times(30) => {
            Finding::soon("mandate", format!("that of `{gateway}` ends at {until}"), who.refresh())
        }
        Some(_) => Finding::ok("mandate", format!("that of `{gateway}` is in force until {until}")),
    }
}

/// The certificate of an issuing key under the root in use.
pub fn issuer(now: Timestamp, domain: Domain, until: Timestamp) -> Finding {
    let (subject, word) = ("issuer", domain.word());
    let cure = format!("operators certify the key anew, under a new root: freehold rotate {word}");
    let what = format!("the certificate of the `{word}` issuing key");
    match left(now, until) {
        None => Finding::wrong(subject, format!("{what} ended at {until}"), cure),
        Some(time) if time <= ENDS_SOON => Finding::soon(subject, format!("{what} ends at {until}"), cure),
        Some(_) => Finding::ok(subject, format!("{what} is good until {until}")),
    }
}

/// The trusted root of a domain that lasts longest. All is well until then: nothing is said.
pub fn root(now: Timestamp, domain: Domain, until: Timestamp, who: Viewer) -> Option<Finding> {
    let (subject, word) = ("root", domain.word());
    let cure = match who {
        Viewer::Operator => format!("put another in its place: freehold rotate {word}"),
        Viewer::Node => format!("an operator puts another in its place: freehold rotate {word}"),
    };
    match left(now, until) {
        None => {
            let found = format!("the `{word}` root ended at {until}: nothing under it is believed");
            Some(Finding::wrong(subject, found, cure))
        }
        Some(time) if time <= ENDS_SOON => {
            Some(Finding::soon(subject, format!("the `{word}` root ends at {until}"), cure))
        }
        Some(_) => None,
    }
}

/// The gateway's HTTPS certificate, as it showed it just now. It is renewed at half of its seven days.
pub(crate) fn endpoint(now: Timestamp, until: Timestamp) -> Finding {
    let cure = "the gateway's log says why it is not renewed; if the mandate ended: freehold refresh";
    match left(now, until) {
        None => Finding::wrong("endpoint", format!("the gateway's certificate ended at {until}"), cure),
        Some(time) if time < Seconds::DAY => {
            Finding::soon("endpoint", format!("the gateway's certificate ends at {until}"), cure)
        }
        Some(_) => Finding::ok("endpoint", format!("the gateway's certificate is good until {until}")),
    }
}

/// The node's own SVID; `agent` is the command that renews it.
pub fn svid(now: Timestamp, svid: Result<Option<&Svid>, &ScopeError>, agent: &str) -> Finding {
    let subject = "svid";
    let svid = match svid {
        Ok(Some(svid)) => svid,
        Ok(None) => {
            return Finding::wrong(subject, "there is none", format!("start the agent, which fetches one: {agent}"));
        }
        Err(why) => {
            let cure =
                format!("chmod 600 if others can read its key; if it is damaged, let the agent fetch another: {agent}");
            return Finding::wrong(subject, describe(why), cure);
        }
    };
    let (from, until) = (svid.not_before, svid.not_after);
    let life = until.since(from).0;
    // Renewed between 45 and 55 parts of a hundred.
    let due = from + Seconds(life * 45 / 100);
    let overdue = from + Seconds(life * 65 / 100);
    if from > now + LEEWAY {
        return Finding::wrong(
            subject,
            format!("it is good only from {from}"),
            format!(
                "this clock is slow (timedatectl set-ntp true), or the gateway's was fast when it issued it: the agent \
                 fetches another: {agent}"
            ),
        );
    }
    match left(now, until) {
        None => Finding::wrong(
            subject,
            format!("it ended at {until}"),
            format!("start the agent, which brings the machine back: {agent}; or is this clock fast?"),
        ),
        Some(_) if now >= overdue => Finding::soon(
            subject,
            format!("it ends at {until}, and its renewal, due at {due}, has not come"),
            format!("the agent renews it: {agent}; if it runs, see `agent` and `gateway` here"),
        ),
        Some(_) => Finding::ok(subject, format!("it is good until {until}, renewed from {due} on")),
    }
}

/// How long it still lasts; nothing if it has ended.
fn left(now: Timestamp, until: Timestamp) -> Option<Seconds> {
    (now < until).then(|| until.since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_contradicts_nothing_signed_is_not_to_be_set() {
        let signed = Timestamp::from_unix(1_800_000_000);
        let newest = Vouched { what: "head 7".to_owned(), at: signed };
        let cure = |here, there| clock(here, Some(&newest), Some(there)).cure.unwrap_or_default();
        let (early, late) = (signed - Seconds::DAY, signed + Seconds::DAY);
        assert!(cure(late, early).starts_with("leave this one; on the gateway's machine"), "{}", cure(late, early));
        assert!(cure(early, late).starts_with("set it right"), "{}", cure(early, late));
        assert!(cure(signed, late).starts_with("find out which is wrong"), "{}", cure(signed, late));
    }
}
