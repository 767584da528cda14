//! A disk that forgets what was not synced: a file system in memory, mounted for real, whose power can be cut at any
//! step.
//!
//! Nothing of it is in the programs: they read and write files. A kill leaves what the kernel has in its memory; only
//! this shows whether something was synced before something else relied on it.

mod world;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

pub use world::Lost;
use world::{Body, Node, Number, Refused, World};

/// Mounted until it is dropped.
#[derive(Debug)]
pub struct Forgetful {
    pub folder: PathBuf,
    world: Arc<Mutex<World>>,
    session: Option<BackgroundSession>,
}

impl Forgetful {
    /// Mounts an empty disk over a folder, which is made if need be.
    pub fn at(folder: PathBuf) -> Self {
        std::fs::create_dir_all(&folder).unwrap_or_else(|why| panic!("no folder: {why}"));
        Self::mounted(folder, World::default())
    }

    fn mounted(folder: PathBuf, world: World) -> Self {
        let world = Arc::new(Mutex::new(world));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgetful".to_owned()), MountOption::NoAtime];
        let how = "run the tests as root, with /dev/fuse";
        let session = fuser::spawn_mount(Disk(Arc::clone(&world)), &folder, &config);
        let session = session.unwrap_or_else(|why| panic!("cannot mount a disk that forgets; {how}: {why}"));
        Self { folder, world, session: Some(session) }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on this many changes and syncs happen; then nothing works any more.
    pub fn power_fails_after(&self, steps: usize) {
        let mut world = self.world();
        world.fails_at = Some(world.steps + steps);
    }

    pub fn has_power(&self) -> bool {
        self.world().powered().is_ok()
    }

    /// Changes and syncs so far.
    pub fn steps(&self) -> usize {
        self.world().steps
    }

    /// Everything that is there now lasts.
    pub fn settle(&self) {
        self.world().settle();
    }

    /// The disk as it is when power comes back. Nobody may have anything open there.
    #[must_use]
    pub fn powered_again(mut self, lost: Lost) -> Self {
        self.unmount();
        let world = self.world().cut(lost);
        Self::mounted(self.folder.clone(), world)
    }

    fn unmount(&mut self) {
        if let Some(session) = self.session.take() {
            session.umount_and_join().unwrap_or_else(|why| panic!("the disk is still in use: {why}"));
        }
    }
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            // A test that fails may have left something open.
            let _ = std::process::Command::new("umount").arg("-l").arg(&self.folder).status();
            drop(session);
        }
    }
}

/// Nothing is remembered by the kernel: after a cut it would remember too much.
const NOW: Duration = Duration::ZERO;
const FIRST: Generation = Generation(0);

#[derive(Debug)]
struct Disk(Arc<Mutex<World>>);

impl Disk {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attr(&self, number: Number, req: &Request) -> Result<FileAttr, Refused> {
        let world = self.world();
        let node = world.node(number)?;
        let (kind, size) = match &node.body {
            Body::File(content) => (FileType::RegularFile, content.len()),
            Body::Folder(_) => (FileType::Directory, 0),
            Body::Link(target) => (FileType::Symlink, target.as_os_str().len()),
            Body::Socket => (FileType::Socket, 0),
        };
        let moment = SystemTime::UNIX_EPOCH;
        Ok(FileAttr {
            ino: INodeNo(number),
            size: size as u64,
            blocks: size.div_ceil(512) as u64,
            atime: moment,
            mtime: moment,
            ctime: moment,
            crtime: moment,
            kind,
            perm: node.mode,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: req.uid(),
            gid: req.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn make(
        &self,
        (parent, name): (INodeNo, &OsStr),
        mode: u32,
        body: Body,
        req: &Request,
    ) -> Result<FileAttr, Refused> {
        let mode = u16::try_from(mode & 0o7777).unwrap_or_default();
        let number = self.world().make(parent.0, name, Node { mode, body })?;
        self.attr(number, req)
    }
}

const fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Missing => Errno::ENOENT,
        Refused::There => Errno::EEXIST,
        Refused::NotAFolder => Errno::ENOTDIR,
        Refused::IsAFolder => Errno::EISDIR,
        Refused::NotEmpty => Errno::ENOTEMPTY,
        Refused::NoPower => Errno::EIO,
    }
}

fn entry(made: Result<FileAttr, Refused>, reply: ReplyEntry) {
    match made {
        Ok(attr) => reply.entry(&NOW, &attr, FIRST),
        Err(why) => reply.error(errno(why)),
    }
}

fn done(done: Result<(), Refused>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(why) => reply.error(errno(why)),
    }
}

const S_IFMT: u32 = 0o170_000;
const S_IFSOCK: u32 = 0o140_000;

impl Filesystem for Disk {
    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let child = self.world().child(parent.0, name);
        entry(child.and_then(|child| self.attr(child, req)), reply);
    }

    fn getattr(&self, req: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino.0, req) {
            Ok(attr) => reply.attr(&NOW, &attr),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            if let Some(mode) = mode {
                self.world().set_mode(ino.0, u16::try_from(mode & 0o7777).unwrap_or_default())?;
            }
            if let Some(size) = size {
                self.world().resize(ino.0, usize::try_from(size).unwrap_or_default())?;
            }
            self.attr(ino.0, req)
        };
        match set() {
            Ok(attr) => reply.attr(&NOW, &attr),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.world().target(ino.0) {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: u32, reply: ReplyEntry) {
        let body = if mode & S_IFMT == S_IFSOCK { Body::Socket } else { Body::File(Vec::new()) };
        entry(self.make((parent, name), mode & !umask, body, req), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        entry(self.make((parent, name), mode & !umask, Body::Folder(BTreeMap::new()), req), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        entry(self.make((parent, name), 0o777, Body::Link(target.to_owned()), req), reply);
    }

    fn create(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        match self.make((parent, name), mode & !umask, Body::File(Vec::new()), req) {
            Ok(attr) => reply.created(&NOW, &attr, FIRST, FileHandle(0), FopenFlags::empty()),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.world().remove(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.world().remove(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        new: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.is_empty() {
            done(self.world().rename((parent.0, name), (to.0, new)), reply);
        } else {
            reply.error(Errno::EINVAL);
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let world = self.world();
        match world.node(ino.0).map(|node| &node.body) {
            Ok(Body::File(content)) => {
                let from = content.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
                let to = content.len().min(from.saturating_add(size as usize));
                reply.data(content.get(from..to).unwrap_or_default());
            }
            Ok(_) => reply.error(Errno::EISDIR),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.world().write(ino.0, usize::try_from(offset).unwrap_or_default(), data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or_default()),
            Err(why) => reply.error(errno(why)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.world().sync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.world().sync(ino.0), reply);
    }

    /// In the order of their numbers, which do not move when others go.
    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let world = self.world();
        let names = match world.names(ino.0) {
            Ok(names) => names,
            Err(why) => return reply.error(errno(why)),
        };
        let mut children: Vec<_> = names.iter().filter(|(_, number)| **number > offset).collect();
        children.sort_by_key(|(_, number)| **number);
        for (name, number) in children {
            let kind = match world.node(*number).map(|node| &node.body) {
                Ok(Body::Folder(_)) => FileType::Directory,
                Ok(Body::Link(_)) => FileType::Symlink,
                Ok(Body::Socket) => FileType::Socket,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(*number), *number, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096);
    }
}
