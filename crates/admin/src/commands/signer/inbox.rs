//! `freehold sign`, without a file: what waits in the gateway's inbox, shown, signed, and delivered by the last one.

use operate::key::SignerKeys;
use operate::session::Session;
use operate::session::inbox::{self, Lying};
use operate::signer::cosign;
use serde::Serialize;
use terminal::confirm::confirm;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use crate::commands::signer::shown::{SignOptions, Told, WeighedView, check, in_words, tell, unfit};
use crate::home::{Common, During};
use crate::waiting::of_org;

#[derive(Serialize)]
struct AllTold {
    gateway: String,
    waits_for_signatures: bool,
    pending: Vec<Told>,
}

/// The beginning of a digest, by which one thing in the inbox is meant.
pub fn digits(said: &str) -> Result<String, String> {
    let fits = (8..=64).contains(&said.len()) && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits { Ok(said.to_ascii_lowercase()) } else { Err("8 to 64 hex digits name what lies in the inbox".to_owned()) }
}

/// All of it, or the one that was named.
pub async fn run(common: &Common, named: Option<&str>, how: &SignOptions) -> Result<(), Failure> {
    let doing = "could not sign what waits";
    if how.yes && named.is_none() {
        return Err(Failure::usage(doing, "a yes beforehand is for what was looked at")
            .hint("look first: freehold sign --show; then name it: freehold sign DIGITS --yes"));
    }
    let (mut session, keys) = if how.show {
        (common.session(doing).await?, None)
    } else {
        let (session, keys) = common.signing_session_with_all(doing).await?;
        (session, Some(keys))
    };
    let mut told = Vec::new();
    for lying in found(&mut session, doing, named).await? {
        if !common.json && named.is_none() && !told.is_empty() {
            eprintln!();
        }
        let asked = Asked { common, how, named: named.is_some() };
        told.push(Box::pin(one(asked, &mut session, keys.as_ref(), lying)).await?);
    }
    let waits_for_signatures = told.iter().any(|it| it.waits_for_signatures);
    if waits_for_signatures && !how.show {
        common.unfinished.note();
    }
    let all = AllTold { gateway: session.survey.gateway.to_string(), waits_for_signatures, pending: told };
    show(common.json, &all, || match all.pending.as_slice() {
        [] => format!("nothing waits for signatures in the inbox of `{}`", all.gateway),
        some => some.iter().map(|it| format!("{}:\n{}", it.short(), in_words(it))).collect::<Vec<_>>().join("\n"),
    });
    Ok(())
}

/// Takes back what this operator left.
pub async fn withdraw(common: &Common, digits: &str) -> Result<(), Failure> {
    let doing = "could not take it back";
    let mut session = common.session(doing).await?;
    for lying in found(&mut session, doing, Some(digits)).await? {
        inbox::withdraw(&mut session, lying.pending.digest()).await.during(doing)?;
    }
    let left = found(&mut session, doing, Some(digits)).await.is_ok();
    show(common.json, &serde_json::json!({ "dropped": digits, "left_by_others": left }), || {
        if left { "what you left is taken back; others left it, too" } else { "it is taken back" }.to_owned()
    });
    Ok(())
}

async fn found(session: &mut Session, doing: &str, named: Option<&str>) -> Result<Vec<Lying>, Failure> {
    let mut all = inbox::all(session).await.during(doing)?;
    let Some(digits) = named else { return Ok(all) };
    all.retain(|it| it.pending.digest().to_string().starts_with(digits));
    if all.len() == 1 {
        return Ok(all);
    }
    let why = if all.is_empty() { "nothing in the gateway's inbox is called so" } else { "several things begin so" };
    Err(Failure::failed(doing, why).hint("see what lies there: freehold sign --show; it may be done, or be overtaken"))
}

/// What was asked for.
#[derive(Clone, Copy)]
struct Asked<'a> {
    common: &'a Common,
    how: &'a SignOptions,
    /// This very thing.
    named: bool,
}

/// Shows one, and signs it if a person says yes. Of several, one that this home cannot agree to holds up no other.
async fn one(
    asked: Asked<'_>,
    session: &mut Session,
    keys: Option<&SignerKeys>,
    mut lying: Lying,
) -> Result<Told, Failure> {
    let doing = format!("could not sign `{}`", lying.pending.short());
    let looked = cosign::look(session, &lying.pending).await.map_err(|why| unfit(&doing, &why))?;
    let mut seen = WeighedView::new(looked);
    tell(asked.common, &lying.pending, &seen.does, &seen.weighed);
    let Some(keys) = keys.filter(|keys| cosign::is_for(&lying, keys)) else {
        return Ok(seen.told(&lying.pending, &lying.needs));
    };
    match agree(asked, session, &seen, &lying, &doing) {
        Ok(()) => {}
        Err(why) if asked.named || why.exit == Exit::Usage => return Err(why),
        Err(why) => {
            seen.not_signed = Some(why.why());
            return Ok(seen.told(&lying.pending, &lying.needs));
        }
    }
    let signed = cosign::sign(session, keys, &mut lying).await.during(&doing)?;
    seen.signed_now = signed.by.iter().map(ToString::to_string).collect();
    seen.sent = signed.sent;
    Ok(seen.told(&lying.pending, &lying.needs))
}

fn agree(asked: Asked<'_>, session: &Session, seen: &WeighedView, lying: &Lying, doing: &str) -> Result<(), Failure> {
    check(asked.common, asked.how, session.known.org(), &lying.pending, &seen.weighed).during(doing)?;
    confirm(asked.how.yes, doing, &of_org(asked.common, &session.known, "Sign it?"))
}
