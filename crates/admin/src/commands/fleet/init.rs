//! `freehold fleet init`: a commented example fleet.

use std::path::PathBuf;

use clap::Args;
use gateway::store::folder::GatewayFolder;
use manifest::example::Setting;
use operate::publish::fleet;
use serde::Serialize;
use terminal::failure::Failure;
use terminal::show::show;

use crate::home::{Common, During};

#[derive(Debug, Args)]
#[command(after_help = "Example:
  freehold fleet init fleet && freehold check

If there is an org in this home, its name, id and gateway stand in the example. Nothing is overwritten.")]
pub struct Init {
    /// Where to write it; made if it is not there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

#[derive(Serialize)]
struct Told {
    folder: String,
    files: Vec<String>,
    org: String,
    org_id: String,
    /// Whether name and id are those of an org in this home.
    known: bool,
}

impl Init {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not write an example fleet";
        let (setting, known) = setting(common, doing)?;
        let files = fleet::init(&self.dir, &setting).during(doing)?;
        let (org, org_id, folder) = (setting.org.to_string(), setting.id.to_string(), self.dir.display().to_string());
        let told = Told { folder, files, org, org_id, known };
        show(common.json, &told, || {
            let next = if told.known {
                format!("next: edit it, then freehold check {}", told.folder)
            } else {
                "next: put your org's name and id into org.yaml, edit the rest, then freehold check".to_owned()
            };
            format!("wrote {} into `{}`\n{next}", told.files.join(", "), told.folder)
        });
        Ok(())
    }
}

/// What this home knows of its org; else what stands in the example.
fn setting(common: &Common, doing: &str) -> Result<(Setting, bool), Failure> {
    let mut setting = Setting::unknown().ok_or_else(|| Failure::failed(doing, "there is no example"))?;
    if common.chosen().is_empty() {
        return Ok((setting, false));
    }
    let org = common.org(doing)?;
    let (operator, gateway) = (common.folder(&org), GatewayFolder::at(&common.home(), &org));
    let about = gateway.about().ok();
    let known = operator.known().ok().map(|known| known.org());
    let Some(id) = known.or_else(|| about.as_ref().map(|about| about.org_id)) else {
        return Err(Failure::failed(doing, format!("the id of `{org}` cannot be read"))
            .hint("look at what is wrong with this home: freehold doctor"));
    };
    let memory = operator.memory().ok();
    let addresses = about.iter().flat_map(|about| &about.addresses);
    let mut addresses = addresses.chain(memory.iter().flat_map(|memory| &memory.gateways));
    setting.gateway = addresses.next().cloned().unwrap_or(setting.gateway);
    let node = about.as_ref().map(|about| about.node.clone());
    setting.node = node.or_else(|| memory.as_ref()?.gateway.clone()).unwrap_or(setting.node);
    let signer = memory.and_then(|memory| memory.signer).and_then(|name| name.as_str().parse().ok());
    setting.operator = signer.unwrap_or(setting.operator);
    Ok((Setting { org, id, ..setting }, true))
}
