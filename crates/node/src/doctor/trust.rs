//! The roots that a machine goes by, and the gateways that it believes by them.

use identity::bundle::{Endpoint, InDomain, Roots};
use identity::causes::describe;
use identity::time::Timestamp;
use identity::verifier::leads_to;
use member::apply::trust::Trusting;
use member::ask::keep::{Both, identity_roots};
use member::ask::reach::is_lost;
use member::store::scope::trust::TrustPaths;
use member::store::scope::{NodeFile, Scope, Svid};
use terminal::finding::Finding;
use wire::connect::GatewayAddress;
use wire::known::Known;
use wire::tls::OwnSvid;
use wire::trust::{explain, refresh};

use super::examination::Examination;
use super::{reach, standing};
use crate::program::Program;

/// Does this machine go by the roots that the operators hand out, and do others read the same?
pub(super) fn trust(scope: &Scope, program: Program, known: &Known, now: Timestamp) -> Vec<Finding> {
    let found = Both::open(scope, known, known.now(now)).and_then(|both| {
        let paths = scope.trust_paths()?;
        let endpoint = roots(scope, program, &paths, known, &both.endpoint);
        let mut found = vec![endpoint, roots(scope, program, &paths, known, &both.identity)];
        found.extend(ending(&both.endpoint, known, now));
        found.extend(ending(&both.identity, known, now));
        Ok(found)
    });
    found.unwrap_or_else(|why| vec![Finding::wrong("trust", describe(&why), program.anew())])
}

fn ending<D: InDomain>(trusting: &Trusting<D>, known: &Known, now: Timestamp) -> Option<Finding> {
    standing::root(now, D::DOMAIN, trusting.roots(&known.head.head).until()?, standing::Viewer::Node)
}

fn roots<D: InDomain>(
    scope: &Scope,
    program: Program,
    paths: &TrustPaths,
    known: &Known,
    trusting: &Trusting<D>,
) -> Finding {
    let (subject, domain, head) = ("trust", D::DOMAIN.word(), &known.head.head);
    if let Err(why) = scope.check_trust_paths(paths) {
        let cure = format!("say where: {}", program.command("trust paths --help"));
        return Finding::wrong(subject, why.to_string(), cure);
    }
    let file = scope.roots_path(paths, D::DOMAIN);
    let written = scope.written_roots::<D>(paths).map(|roots| roots.certificates().to_vec());
    if written.is_none() || trusting.is_served(head) && written != Some(trusting.roots(head).certificates().to_vec()) {
        let found = format!("`{}` does not hold the roots that count", file.display());
        return Finding::wrong(
            subject,
            found,
            format!("the agent writes it again when it starts: {}", program.agent()),
        );
    }
    let Some(told) = trusting.told(head) else {
        let found = format!("it is not known yet which versions of the `{domain}` roots are here");
        return Finding::soon(subject, found, format!("the agent asks for it: {}", program.agent()));
    };
    if let Some(refused) = told.refused {
        let found = format!("new `{domain}` roots went back at {}: {}", refused.at, refused.why);
        let cure = format!("mend that, then try them again: {}", program.command("sync --now"));
        return Finding::wrong(subject, found, cure);
    }
    if let Some(version) = told.trial {
        let found = format!("version {version} of the `{domain}` roots is on trial");
        return Finding::soon(subject, found, "nothing: it is confirmed or goes back by itself");
    }
    let versions: Vec<_> = told.versions.iter().map(ToString::to_string).collect();
    Finding::ok(subject, format!("it goes by version {} of the `{domain}` roots", versions.join(", ")))
}

/// Each gateway, with the SVID if there is one: what a renewal would meet.
pub(super) async fn gateways(
    found: &mut Examination,
    scope: &Scope,
    program: Program,
    node: &NodeFile,
    known: &Known,
    svid: Option<&Svid>,
) {
    let now = found.now;
    let roots = match Trusting::<Endpoint>::open(scope, known, known.now(now)) {
        Ok(trusting) => trusting.roots(&known.head.head),
        Err(why) => return found.push(Finding::wrong("gateway", describe(&why), program.anew())),
    };
    for address in &node.gateways {
        let gateway = GatewayAddress::from(address.clone());
        let own = svid.map(|svid| &svid.own);
        let mut outcome = reach::reach(&gateway, &roots, known, own).await;
        let moved = if outcome.as_ref().is_err_and(is_lost) { refresh(&gateway, known).await.ok() } else { None };
        if let Some((newer, trust)) = moved {
            // As the agent would come home; here it is not kept.
            let leads = |own: &&OwnSvid| !leads_to(&own.chain, &Roots::of_all(&trust.identity), now).is_empty();
            let own = own.filter(leads);
            outcome = reach::reach(&gateway, &Roots::of_all(&trust.endpoint), &newer, own).await;
            if outcome.is_ok() {
                let svid = if own.is_some() { "" } else { ", and its SVID leads to none of them" };
                let answers = format!("{address} answers under roots that this machine has not taken yet{svid}");
                let (agent, sync) = (program.agent(), program.command("sync"));
                let cure = format!("the agent comes back by itself: {agent}; or now: {sync}");
                found.push(Finding::soon("trust", answers, cure));
            }
        }
        let outcome = match (outcome, svid, identity_roots(scope, known)) {
            // An alert says little; this machine knows more.
            (Err(why), Some(svid), Ok(members)) => Err(explain(why, &gateway, known, &svid.own.chain, &members).await),
            (outcome, ..) => outcome,
        };
        found.called(&gateway, &outcome);
    }
}
