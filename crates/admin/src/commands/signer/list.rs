//! `freehold signer list`: who signs, and who did before.

use clap::Args;
use node::report::{Failure, show};
use serde::Serialize;

use crate::home::Common;
use crate::words::table;

#[derive(Debug, Args)]
pub struct List {}

#[derive(Serialize)]
struct SetTold {
    version: u64,
    id: String,
    threshold: usize,
    current: bool,
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
        let (known, mut here) = (&session.known, session.folder.signers_here());
        here.extend(session.folder.tokens_here());
        let sets = known.signer_sets().into_iter().map(|set| SetTold {
            version: set.version,
            id: set.id.to_string(),
            threshold: set.quorum.threshold(),
            current: set.version == known.signers.version,
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
        });
        let sets: Vec<SetTold> = sets.collect();
        show(common.json, &sets, || sets.iter().map(set_in_words).collect::<Vec<_>>().join("\n\n"));
        Ok(())
    }
}

fn set_in_words(set: &SetTold) -> String {
    let now = if set.current { ", in force" } else { "" };
    let rows: Vec<_> = set
        .signers
        .iter()
        .map(|signer| vec![signer.name.clone(), if signer.here { "here" } else { "" }.to_owned(), signer.key.clone()])
        .collect();
    let (k, n) = (set.threshold, set.signers.len());
    format!("set {}: {k} of {n} must agree{now}\n{}", set.version, table(&["SIGNER", "KEY IS", "KEY"], &rows))
}
