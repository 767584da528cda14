//! A small fleet that is well, and how it is broken.

use identity::id::OrgId;

use crate::fleet::Fleet;
use crate::source::{Complaint, KnownOrg, SourceFile, read};

/// Without a complaint.
pub const WELL: &str = "\
org: {name: harbor, id: '0101010101010101010101010101010101010101010101010101010101010101'}
nodes:
  gw: {address: 'gw.example:7444'}
  desk:
services:
  wiki: {at: gw, addr: '127.0.0.1:80', groups: pages}
users:
  ann: {roles: [operator, staff], nodes: desk}
roles:
  staff: {allow: pages}
groups: [pages]
";

pub fn known() -> KnownOrg {
    KnownOrg { name: "harbor".parse().unwrap(), id: OrgId([1; 32]) }
}

pub fn files(files: &[(&str, &str)]) -> Vec<SourceFile> {
    let file = |(path, text): &(&str, &str)| SourceFile { path: (*path).to_owned(), bytes: text.as_bytes().to_vec() };
    files.iter().map(file).collect()
}

pub fn look(sources: &[SourceFile]) -> Result<(Fleet, Vec<Complaint>), Vec<Complaint>> {
    let attached = |path: &crate::stored::FileName| match path.as_str() {
        "files/motd" => Ok(b"hello\n".to_vec()),
        "files/large" => Ok(vec![b'x'; 300 << 10]),
        _ => Err("it is not there".to_owned()),
    };
    read(sources, &attached, &[known()])
}

pub fn fleet(text: &str) -> Fleet {
    look(&files(&[("fleet.yaml", text)])).unwrap_or_else(|why| panic!("{}", shown(&why))).0
}

pub fn shown(complaints: &[Complaint]) -> String {
    complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// What is said of files, warnings too.
pub fn told_of(sources: &[(&str, &str)]) -> String {
    match look(&files(sources)) {
        Ok((_, warnings)) => shown(&warnings),
        Err(complaints) => shown(&complaints),
    }
}

/// What is said of the small fleet after a change; what is changed must be there.
pub fn broken(from: &str, to: &str) -> String {
    assert!(WELL.contains(from), "`{from}` is not there to be changed");
    told_of(&[("fleet.yaml", &WELL.replacen(from, to, 1))])
}

/// What is said of the small fleet with more of it in a second file.
pub fn with(more: &str) -> String {
    told_of(&[("fleet.yaml", WELL), ("more.yaml", more)])
}

#[track_caller]
pub fn same(told: &str, wanted: &str) {
    assert!(told == wanted.trim_matches('\n'), "it said:\n{told}\n\nand not:\n{}", wanted.trim_matches('\n'));
}

#[test]
fn a_fleet_that_is_well_has_no_complaint() {
    same(&told_of(&[("fleet.yaml", WELL)]), "");
    let fleet = fleet(WELL);
    assert_eq!(fleet.nodes.len(), 2);
    assert!(fleet.roles.contains_key(&"operator".parse().unwrap()), "it is always there");
}
