//! The org's card: everything public that a new operator's home, or a recovery, starts from.

use std::path::Path;

use ground::clock;
use ground::file::{self, FileAccess};
use identity::principal::Address;
use serde::{Deserialize, Serialize};
use wire::known::{Known, KnownFile};

use crate::folder::{FileDamage, FolderError, Memory, OperatorFolder, damaged, write_json};

/// No secret is in it. Whoever takes it checks the org's id with somebody whom they trust.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub freehold_card: u32,
    pub known: KnownFile,
    pub gateways: Vec<Address>,
}

const SCHEMA: u32 = 1;

impl Card {
    pub fn of(known: &Known, gateways: Vec<Address>) -> Self {
        Self { freehold_card: SCHEMA, known: known.to_file(), gateways }
    }

    pub fn read(path: &Path) -> Result<(Known, Vec<Address>), FolderError> {
        let card: Self = serde_json::from_slice(&file::read(path)?).map_err(damaged(path))?;
        if card.freehold_card != SCHEMA {
            return Err(FolderError::Damaged { path: path.to_owned(), why: FileDamage::Newer });
        }
        let told = Known::from_file(card.known)?;
        // Since when a recovery is known is for each to count: a card's date would be its maker's word.
        let recoveries: Vec<_> = told.recoveries().collect();
        let known = Known::new(told.founding, &told.chain, &told.head_envelope)?;
        let now = clock::now();
        let known = recoveries.iter().fold(known, |known, one| known.notice(&one.step, now).unwrap_or(known));
        Ok((known, card.gateways))
    }

    pub fn save(&self, path: &Path) -> Result<(), FolderError> {
        write_json(path, self, FileAccess::Readable)
    }
}

/// A new operator's folder, from a card.
pub fn settle(folder: &OperatorFolder, known: &Known, gateways: Vec<Address>) -> Result<(), FolderError> {
    file::make_private_folder(&folder.path("signers"))?;
    folder.save_memory(&Memory { schema: 1, gateways, ..Memory::default() })?;
    folder.save_known(known)
}
