//! `freehold gateway renew`: a longer mandate, and certificates under the roots that came since.

use std::path::PathBuf;

use clap::Args;
use gateway::store::folder::GatewayFolder;
use ground::clock;
use identity::principal::NodeName;
use identity::time::Seconds;
use operate::gateway::add::write_grant;
use operate::gateway::mandate;
use operate::gateway::mandate::MandateWish;
use operate::gateway::papers;
use operate::gateway::papers::Papers;
use operate::gateway::papers::papers;
use operate::session::Session;
use operate::session::timely::MANDATE;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};
use crate::root_keys::RootKeys;
use crate::waiting::{Left, leave, told};
use identity::head::TrustLine;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold gateway renew vps --lasts 90d

If it has no certificate of its issuing keys under a root that is trusted, because it was left out when that came, or if that
certificate ends within 90 days, one is made: then the root keys are needed. It goes into a file that is brought to that machine.")]
pub struct Renew {
    /// The gateway's node name
    node: NodeName,
    /// How long its mandate lasts from now [default: 365d]
    #[arg(long, value_name = "SPAN")]
    lasts: Option<Seconds>,
    /// Where to write certificates that it lacks; there is no secret in it [default: NAME.grant here]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where the root keys are [default: the operator's folder]
    #[arg(long, value_name = "DIR")]
    roots: Option<PathBuf>,
}

#[derive(Serialize)]
struct Renewed {
    gateway: String,
    until: String,
    /// Versions of the roots under which it got a certificate.
    certified: Vec<String>,
    /// Trusted versions under which none could be made: the root's key is not at hand.
    uncertified: Vec<String>,
    /// What it is to install; absent if there is nothing, or if it lies here and has it already.
    grant: Option<String>,
    /// No certificate of its issuing keys was ever seen here.
    unknown: bool,
    #[serde(flatten)]
    pending: Left,
}

impl Renew {
    pub async fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = format!("could not renew the mandate of `{}`", self.node);
        let (mut session, keys) = common.signing_session(&doing).await?;
        let mut papers = papers(&mut session, &self.node, clock::now()).await.during(&doing)?;
        let before = lacking(&papers);
        let mut grant = None;
        if !before.is_empty() {
            let roots = RootKeys::new(common, &session, self.roots.clone());
            papers.certify(&session, &self.node, &roots, clock::now()).during(&doing)?;
        }
        let uncertified = lacking(&papers);
        let certified: Vec<_> = before.into_iter().filter(|version| !uncertified.contains(version)).collect();
        if !certified.is_empty() {
            grant = self.hand(common, &session, &papers, &doing)?;
        }
        let wish = MandateWish { lasts: Some(self.lasts.unwrap_or(MANDATE)), ..MandateWish::default() };
        let made = mandate::change(&mut session, &keys, &self.node, &wish).await.during(&doing)?;
        let renewed = Renewed {
            gateway: self.node.to_string(),
            until: made.what.not_after.to_string(),
            certified,
            uncertified,
            grant,
            unknown: !papers.identity.is_known() || !papers.endpoint.is_known(),
            pending: leave(common, &doing, &session.known, &made)?,
        };
        show(common.json, &renewed, || renewed.in_words());
        Ok(())
    }

    /// Into its folder, if it lies in this home; else into a file.
    fn hand(
        &self,
        common: &Common,
        session: &Session,
        papers: &Papers,
        doing: &str,
    ) -> Result<Option<String>, Failure> {
        let grant = papers::renewal(session, &self.node, papers).during(doing)?;
        let folder = GatewayFolder::at(&common.home(), &session.known.founding.record.name);
        if folder.folder.exists() && folder.about().is_ok_and(|about| about.node == self.node) {
            folder.take(&grant, clock::now()).during(doing)?;
            return Ok(None);
        }
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.grant", self.node)));
        write_grant(&out, &grant).during(doing)?;
        Ok(Some(out.display().to_string()))
    }
}

/// Versions of the roots under which its keys have no certificate.
fn lacking(papers: &Papers) -> Vec<String> {
    papers.lacking().iter().map(named).collect()
}

/// A version of the roots of a domain.
pub fn named(line: &TrustLine) -> String {
    format!("{} {}", line.domain.word(), line.version)
}

impl Renewed {
    fn in_words(&self) -> String {
        let done = || format!("`{}` has a mandate until {}", self.gateway, self.until);
        let mut lines = vec![told(self.pending.waiting(), done)];
        if !self.certified.is_empty() {
            lines.push(format!("its issuing keys are certified under {}", self.certified.join(", ")));
            lines.push(match &self.grant {
                Some(grant) => format!(
                    "Bring `{grant}` to `{}`; there run, and start it anew:\n\n  freehold-node gateway install {grant}\n",
                    self.gateway
                ),
                None => "The certificates lie in its folder here; start it anew: freehold serve".to_owned(),
            });
        }
        if !self.uncertified.is_empty() {
            lines.push(format!(
                "NOT certified under {}: the root's key is not here; run this where it is, or say where: --roots DIR",
                self.uncertified.join(", ")
            ));
        }
        if self.unknown {
            lines.push(
                "its issuing keys are not known here: start it, and run this again, if roots came since it was added"
                    .to_owned(),
            );
        }
        lines.join("\n")
    }
}
