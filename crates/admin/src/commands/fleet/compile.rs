//! `freehold compile`: what publishing would sign, as files.

use std::path::{Path, PathBuf};

use clap::Args;
use ground::file;
use identity::id::Digest;
use identity::members::Leaf;
use manifest::compile::{HeldBack, MemberKnown, compile};
use manifest::emit::{CompiledIndex, INDEX, emit};
use manifest::stored::SCHEMA;
use serde::Serialize;
use terminal::failure::{Exit, Failure};
use terminal::show::show;

use crate::commands::fleet::check::read_fleet;
use crate::home::{Common, During};
use crate::tree;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  freehold compile --out compiled                          the fleet in ./fleet, or here
  freehold compile --out compiled --members members.json   with leaves for these members
  diff -r compiled theirs                                  the same fleet gives the same bytes everywhere

The layout is documented in docs/reference/compiled.md. Members are known at the gateway; without --members there are
leaves for classes only, and what declared nodes will get lies under waiting/. DIR must be empty or an earlier outcome,
is replaced in one step, and does not lie in the fleet's folder. No secret is in it.")]
pub struct Compile {
    /// Where to write it
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The members, as JSON: [{\"name\", \"node_key\", \"admission\"}]
    #[arg(long, value_name = "FILE")]
    members: Option<PathBuf>,
    /// The manifest schema, for nodes that do not know the newest one
    #[arg(long, default_value_t = SCHEMA, value_name = "N")]
    schema: u32,
    /// The fleet's folder
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct Told {
    out: String,
    root: Digest,
    schema: u32,
    manifests: usize,
    nodes: usize,
    classes: usize,
    unmatched: Vec<String>,
    waiting: Vec<String>,
}

impl Compile {
    pub fn run(self, common: &Common) -> Result<(), Failure> {
        let doing = "could not compile the fleet";
        let (folder, fleet) = read_fleet(common, self.dir.as_deref(), doing)?;
        if would_be_read(&self.out, folder.root()) {
            let why = format!(
                "`{}` lies in the fleet's folder: what is written there would be read as fleet",
                self.out.display()
            );
            return Err(Failure::usage(doing, why)
                .hint("name a folder elsewhere, or one that begins with a dot: --out .compiled"));
        }
        let members = self.members.as_deref().map_or(Ok(Vec::new()), |file| members(file, doing))?;
        let compiled = compile(&fleet, &members, self.schema).map_err(|against| held_back(doing, &against))?;
        let files = emit(&fleet, &compiled, self.schema);
        let ours = |folder: &Path| {
            let index = file::read(&folder.join(INDEX)).ok();
            index.is_some_and(|bytes| serde_json::from_slice::<CompiledIndex>(&bytes).is_ok())
        };
        tree::replace(&self.out, &files, ours).map_err(|why| {
            Failure::new(doing, &why).hint("name a folder that is not there yet, is empty, or was made by this command")
        })?;
        let is_class = |leaf: &&Leaf| matches!(leaf, Leaf::Class(_));
        let classes = compiled.leaves.iter().filter(is_class).count();
        let told = Told {
            out: self.out.display().to_string(),
            root: compiled.root,
            schema: self.schema,
            manifests: compiled.manifests.len(),
            nodes: compiled.leaves.len() - classes,
            classes,
            unmatched: compiled.unmatched.iter().map(ToString::to_string).collect(),
            waiting: compiled.waiting.keys().map(ToString::to_string).collect(),
        };
        show(common.json, &told, || words(&told));
        Ok(())
    }
}

/// Whether the outcome would be a part of the fleet that it is made from. What begins with a dot is not.
fn would_be_read(out: &Path, fleet: &Path) -> bool {
    let beside = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(beside), Some(name)) = (beside.canonicalize(), out.file_name()) else { return false };
    let whole = beside.join(name);
    let within = whole.strip_prefix(fleet).ok();
    within.is_some_and(|within| !within.iter().any(|part| part.to_string_lossy().starts_with('.')))
}

fn words(told: &Told) -> String {
    let mut lines = vec![
        format!("wrote `{}`; the map's root is {}", told.out, told.root),
        format!(
            "{} for {} and {}",
            count(told.manifests, "manifest", "manifests"),
            count(told.nodes, "member", "members"),
            count(told.classes, "class", "classes")
        ),
    ];
    let mut add = |names: &[String], what: &str| {
        if !names.is_empty() {
            lines.push(format!("{what}: {}", names.join(", ")));
        }
    };
    add(&told.unmatched, "members that match nothing");
    add(&told.waiting, "declared, not among the members");
    lines.join("\n")
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn members(path: &Path, doing: &str) -> Result<Vec<MemberKnown>, Failure> {
    let bytes = file::read(path).during(doing)?;
    serde_json::from_slice(&bytes).map_err(|why| {
        Failure::usage(doing, format!("`{}` is not a list of members: {why}", path.display()))
            .hint(r#"[{"name": "alpha", "node_key": "<64 hex digits>", "admission": "<64 hex digits>"}]"#)
    })
}

/// All that stands against it, at once.
fn held_back(doing: &str, against: &[HeldBack]) -> Failure {
    let why: Vec<String> = against.iter().map(ToString::to_string).collect();
    let hint = against.first().map(HeldBack::hint).unwrap_or_default();
    Failure::failed(doing, why.join("\n  ")).hint(hint).exit(Exit::Failed)
}
