//! `freehold signer list`: who signs, who did before, and which sets claim one place.

use std::collections::BTreeSet;

use clap::Args;
use ground::clock;
use identity::principal::SignerName;
use identity::signers::SignerSet;
use org::refusal::WAY_OUT;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;
use terminal::table::table;
use wire::known::Known;

use crate::home::Common;

#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
struct SetTold {
    version: u64,
    id: String,
    threshold: usize,
    current: bool,
    /// It claims a place that another set claims, too: neither is in force.
    contested: bool,
    signers: Vec<SignerTold>,
}

#[derive(Serialize)]
struct SignerTold {
    name: String,
    key: String,
    here: bool,
}

impl List {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not list the signers";
        let session = common.session(doing).await?;
        let mut here: BTreeSet<SignerName> = session.folder.signers_here().into_iter().collect();
        here.extend(session.folder.tokens_here());
        let sets = sets(&session.known, &here);
        show(common.json, &sets, || {
            let mut words: Vec<String> = sets.iter().map(set_in_words).collect();
            if sets.iter().any(|set| set.contested) {
                words.push(format!("Nothing new is followed until it is settled who signs: {WAY_OUT}"));
            }
            words.join("\n\n")
        });
        Ok(())
    }
}

/// From the first to the one in force, or to those that claim its place.
fn sets(known: &Known, here: &BTreeSet<SignerName>) -> Vec<SetTold> {
    let frozen = known.frozen(clock::now());
    let settled = |set: &SignerSet| frozen.as_ref().is_none_or(|frozen| set.version <= frozen.last.version);
    let told = |set: SignerSet, contested: bool| SetTold {
        version: set.version,
        id: set.id.to_string(),
        threshold: set.quorum.threshold(),
        current: frozen.is_none() && set.id == known.signers.id,
        contested,
        signers: set
            .quorum
            .signers()
            .iter()
            .map(|signer| SignerTold {
                name: signer.name.to_string(),
                key: signer.key.to_string(),
                here: here.contains(&signer.name),
            })
            .collect(),
    };
    let followed = known.signer_sets().into_iter().filter(settled).map(|set| told(set, false));
    let rivals = frozen.iter().flat_map(|frozen| &frozen.rivals).map(|set| told(set.clone(), true));
    followed.chain(rivals).collect()
}

fn set_in_words(set: &SetTold) -> String {
    let now = match (set.current, set.contested) {
        (true, _) => ", in force",
        (false, true) => ", CLAIMS A PLACE that another claims, too",
        (false, false) => "",
    };
    let rows: Vec<_> = set
        .signers
        .iter()
        .map(|signer| vec![signer.name.clone(), if signer.here { "here" } else { "" }.to_owned(), signer.key.clone()])
        .collect();
    let (k, n) = (set.threshold, set.signers.len());
    format!("set {}: {k} of {n} must agree{now}\n{}", set.version, table(&["SIGNER", "KEY IS", "KEY"], &rows))
}
