//! `freehold release show`.

use clap::Args;
use identity::id::Digest;
use operate::release;
use org::release::Release;
use terminal::failure::Failure;
use terminal::show::show;

use super::told::ReleaseTold;
use crate::home::{Common, During};

#[derive(Debug, Args)]
pub struct Show {
    /// Its number [default: the one in force]
    number: Option<u64>,
}

impl Show {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not show the release";
        let mut session = common.session(doing).await?;
        let releases = release::all(&mut session).await.during(doing)?;
        let named = session.head().release;
        let wanted = |(digest, release): &&(Digest, Release)| match self.number {
            Some(number) => release.number == number,
            None => Some(*digest) == named,
        };
        let Some((digest, release)) = releases.all.iter().find(wanted) else {
            return Err(match self.number {
                Some(number) => Failure::failed(doing, format!("there is no release {number}"))
                    .hint("see which there are: freehold release list"),
                None => {
                    Failure::failed(doing, "there is no release yet").hint("make one: freehold release add FILE...")
                }
            });
        };
        let told = ReleaseTold::of(release, Some(*digest), Some(*digest) == named);
        show(common.json, &told, || told.in_words());
        Ok(())
    }
}
