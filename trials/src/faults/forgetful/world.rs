//! What a disk holds and what it would still hold without power: two tables of the same files.
//!
//! A file's bytes last when the file was synced, a folder's names when the folder was. A name that lasts of a file that
//! was never synced is the name of an empty file. That is less than most file systems keep, and no more than they promise.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub type Number = u64;
pub const ROOT: Number = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, Number>),
    Link(PathBuf),
    Socket,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub mode: u16,
    pub body: Body,
}

/// What a power cut takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Everything that was not synced.
    Unsynced,
    /// Bytes of files that were not synced, while names are as they were last: a journal of names alone.
    Bytes,
    /// Nothing: the process died, the machine did not.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Missing,
    There,
    NotAFolder,
    IsAFolder,
    NotEmpty,
    NoPower,
}

#[derive(Debug)]
pub struct World {
    now: BTreeMap<Number, Node>,
    kept: BTreeMap<Number, Node>,
    last: Number,
    /// Changes and syncs so far.
    pub steps: usize,
    /// The step at which the power fails.
    pub fails_at: Option<usize>,
}

impl Default for World {
    fn default() -> Self {
        let root = Node { mode: 0o700, body: Body::Folder(BTreeMap::new()) };
        let now = BTreeMap::from([(ROOT, root)]);
        Self { kept: now.clone(), now, last: ROOT, steps: 0, fails_at: None }
    }
}

impl World {
    /// What is there after a power cut; with power.
    #[must_use]
    pub fn cut(&self, lost: Lost) -> Self {
        let mut now = BTreeMap::new();
        self.salvage(ROOT, lost, &mut now);
        Self { kept: now.clone(), now, last: self.last, steps: 0, fails_at: None }
    }

    fn salvage(&self, number: Number, lost: Lost, into: &mut BTreeMap<Number, Node>) {
        let from = |table: &BTreeMap<Number, Node>| table.get(&number).cloned();
        let node = match (lost, self.now.get(&number).map(|node| &node.body)) {
            (Lost::Nothing, _) | (Lost::Bytes, Some(Body::Folder(_))) => from(&self.now),
            _ => from(&self.kept).or_else(|| from(&self.now).map(hollow)),
        };
        let Some(node) = node else { return };
        if let Body::Folder(names) = &node.body {
            for child in names.values() {
                self.salvage(*child, lost, into);
            }
        }
        into.insert(number, node);
    }

    /// Everything lasts.
    pub fn settle(&mut self) {
        self.kept.clone_from(&self.now);
    }

    fn step(&mut self) -> Result<(), Refused> {
        self.powered()?;
        self.steps += 1;
        Ok(())
    }

    pub fn powered(&self) -> Result<(), Refused> {
        if self.fails_at.is_some_and(|at| self.steps >= at) { Err(Refused::NoPower) } else { Ok(()) }
    }

    pub fn node(&self, number: Number) -> Result<&Node, Refused> {
        self.powered()?;
        self.now.get(&number).ok_or(Refused::Missing)
    }

    pub fn names(&self, folder: Number) -> Result<&BTreeMap<OsString, Number>, Refused> {
        match &self.node(folder)?.body {
            Body::Folder(names) => Ok(names),
            _ => Err(Refused::NotAFolder),
        }
    }

    pub fn child(&self, folder: Number, name: &OsStr) -> Result<Number, Refused> {
        self.names(folder)?.get(name).copied().ok_or(Refused::Missing)
    }

    fn names_mut(&mut self, folder: Number) -> Result<&mut BTreeMap<OsString, Number>, Refused> {
        match self.now.get_mut(&folder).map(|node| &mut node.body) {
            Some(Body::Folder(names)) => Ok(names),
            Some(_) => Err(Refused::NotAFolder),
            None => Err(Refused::Missing),
        }
    }

    pub fn make(&mut self, folder: Number, name: &OsStr, node: Node) -> Result<Number, Refused> {
        self.step()?;
        let number = self.last + 1;
        let names = self.names_mut(folder)?;
        if names.contains_key(name) {
            return Err(Refused::There);
        }
        names.insert(name.to_owned(), number);
        self.now.insert(number, node);
        self.last = number;
        Ok(number)
    }

    pub fn remove(&mut self, folder: Number, name: &OsStr) -> Result<(), Refused> {
        self.step()?;
        let number = self.child(folder, name)?;
        if matches!(&self.node(number)?.body, Body::Folder(names) if !names.is_empty()) {
            return Err(Refused::NotEmpty);
        }
        // Whoever has it open still reads it.
        self.names_mut(folder)?.remove(name);
        Ok(())
    }

    pub fn rename(&mut self, (folder, name): (Number, &OsStr), (to, new): (Number, &OsStr)) -> Result<(), Refused> {
        self.step()?;
        let number = self.child(folder, name)?;
        let is_folder = |body: &Body| matches!(body, Body::Folder(_));
        if let Ok(old) = self.child(to, new) {
            let (moved, replaced) = (&self.node(number)?.body, &self.node(old)?.body);
            match (is_folder(moved), replaced) {
                (true, Body::Folder(names)) if !names.is_empty() => return Err(Refused::NotEmpty),
                (false, Body::Folder(_)) => return Err(Refused::IsAFolder),
                (true, replaced) if !is_folder(replaced) => return Err(Refused::NotAFolder),
                _ => {}
            }
        }
        self.names_mut(folder)?.remove(name);
        self.names_mut(to)?.insert(new.to_owned(), number);
        Ok(())
    }

    pub fn write(&mut self, number: Number, at: usize, bytes: &[u8]) -> Result<(), Refused> {
        self.step()?;
        let content = self.content_mut(number)?;
        content.resize(content.len().max(at + bytes.len()), 0);
        content.splice(at..at + bytes.len(), bytes.iter().copied());
        Ok(())
    }

    pub fn resize(&mut self, number: Number, size: usize) -> Result<(), Refused> {
        self.step()?;
        self.content_mut(number)?.resize(size, 0);
        Ok(())
    }

    pub fn set_mode(&mut self, number: Number, mode: u16) -> Result<(), Refused> {
        self.step()?;
        self.now.get_mut(&number).ok_or(Refused::Missing)?.mode = mode;
        Ok(())
    }

    fn content_mut(&mut self, number: Number) -> Result<&mut Vec<u8>, Refused> {
        match self.now.get_mut(&number).map(|node| &mut node.body) {
            Some(Body::File(content)) => Ok(content),
            Some(_) => Err(Refused::IsAFolder),
            None => Err(Refused::Missing),
        }
    }

    pub fn sync(&mut self, number: Number) -> Result<(), Refused> {
        self.step()?;
        let node = self.node(number)?.clone();
        if let Body::Folder(names) = &node.body {
            for child in names.values() {
                if let (false, Some(child_node)) = (self.kept.contains_key(child), self.now.get(child)) {
                    self.kept.insert(*child, hollow(child_node.clone()));
                }
            }
        }
        self.kept.insert(number, node);
        Ok(())
    }

    pub fn target(&self, number: Number) -> Result<&Path, Refused> {
        match &self.node(number)?.body {
            Body::Link(target) => Ok(target),
            _ => Err(Refused::Missing),
        }
    }
}

/// What is left of something of which only the name was synced.
fn hollow(node: Node) -> Node {
    let body = match node.body {
        Body::File(_) => Body::File(Vec::new()),
        Body::Folder(_) => Body::Folder(BTreeMap::new()),
        whole @ (Body::Link(_) | Body::Socket) => whole,
    };
    Node { body, ..node }
}
