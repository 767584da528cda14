//! Folders and files: whose they are, who may read them, and how much room is left.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use terminal::finding::Finding;

const SUBJECT: &str = "files";
/// In a scope: where programs read their SVIDs.
const PROGRAMS: &str = "programs";
/// More than any folder of ours holds.
const MANY: usize = 100_000;
/// Below the first a commit may fail at any time; below the second there is time to make room.
const TOO_LITTLE: u64 = 32 << 20;
const LITTLE: u64 = 512 << 20;
const FEW_FILES: u64 = 256;

/// What is wrong with one file, and the command that mends it.
struct Complaint {
    what: String,
    cure: String,
}

/// Looks at a folder and everything in it: for its owner alone, and readable to whoever asks. What programs are to read is
/// for them.
pub(crate) fn look(folder: &Path) -> Finding {
    let meta = match fs::metadata(folder) {
        Ok(meta) => meta,
        Err(why) => return Finding::wrong(SUBJECT, cannot("look at", folder, &why), cure_for(&why, folder)),
    };
    let mut complaints = Vec::new();
    let mut count = 0;
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        count += 1;
        if count > MANY {
            break;
        }
        match examine(&path, meta.uid()) {
            Ok((below, complaint)) => {
                let for_programs = is_scope(&path);
                waiting.extend(below.into_iter().filter(|below| !(for_programs && below.ends_with(PROGRAMS))));
                complaints.extend(complaint);
            }
            // It was renamed or removed while we looked.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => complaints.push(Complaint { what: cannot("read", &path, &why), cure: cure_for(&why, &path) }),
        }
    }
    complaints.sort_by(|a, b| a.what.cmp(&b.what));
    match complaints.as_slice() {
        [] => Finding::ok(SUBJECT, format!("{count} in `{}`, all for their owner alone", folder.display())),
        [only] => Finding::wrong(SUBJECT, &only.what, &only.cure),
        [first, rest @ ..] => {
            let found = format!("{}, and {} more like this", first.what, rest.len());
            Finding::wrong(SUBJECT, found, format!("{}; then run this again for the next", first.cure))
        }
    }
}

/// What lies below, if it is a folder; and what is wrong with it.
fn examine(path: &Path, owner: u32) -> io::Result<(Vec<PathBuf>, Option<Complaint>)> {
    let meta = fs::symlink_metadata(path)?;
    if meta.file_type().is_symlink() {
        return Ok((Vec::new(), None));
    }
    let below = if meta.is_dir() {
        fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?
    } else {
        if meta.is_file() {
            File::open(path)?;
        }
        Vec::new()
    };
    let (shown, mode) = (path.display(), meta.permissions().mode() & 0o777);
    let complaint = if meta.uid() != owner {
        let what = format!("`{shown}` belongs to user {}, its folder to user {owner}", meta.uid());
        Some(Complaint { what, cure: format!("chown {owner} '{shown}'") })
    } else if meta.is_dir() && mode & if is_scope(path) { 0o066 } else { 0o077 } != 0 {
        let what = format!("the folder `{shown}` is open to others (mode {mode:o})");
        Some(Complaint { what, cure: format!("chmod 700 '{shown}'") })
    } else if !meta.is_dir() && mode & closed_bits(path, &meta) != 0 {
        let what = format!("`{shown}` is open to others (mode {mode:o})");
        let key = if is_secret(path) { "; if others may have read it, replace that key" } else { "" };
        let right = if closed_bits(path, &meta) == 0o022 { 644 } else { 600 };
        Some(Complaint { what, cure: format!("chmod {right} '{shown}'{key}") })
    } else {
        None
    };
    Ok((below, complaint))
}

/// Others may pass through, to where their programs read.
fn is_scope(path: &Path) -> bool {
    path.join(PROGRAMS).is_dir() && path.join("node.key").exists()
}

/// Certificates and settings may be read, but not written; everything else is nobody else's business.
fn closed_bits(path: &Path, meta: &fs::Metadata) -> u32 {
    let public = path.extension().is_some_and(|ending| ending == "pem" || ending == "toml");
    if public && !meta.file_type().is_socket() { 0o022 } else { 0o077 }
}

fn is_secret(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "key")
}

fn cannot(doing: &str, path: &Path, why: &io::Error) -> String {
    format!("cannot {doing} `{}`: {why}", path.display())
}

fn cure_for(why: &io::Error, path: &Path) -> String {
    match why.kind() {
        io::ErrorKind::PermissionDenied => {
            let owner = path.ancestors().find_map(|above| fs::metadata(above).ok()).map(|meta| meta.uid());
            let owner = owner.map_or(String::new(), |owner| format!(" (user {owner}, it seems)"));
            format!("run this as its owner{owner}, or as root")
        }
        io::ErrorKind::NotFound => "put it back; or say where it is: --home DIR, --root DIR".to_owned(),
        _ => "look at the disk: dmesg, smartctl; then put back a copy".to_owned(),
    }
}

/// Room on the file system of a folder.
pub(crate) fn room(folder: &Path) -> Finding {
    let subject = "disk";
    let stat = match rustix::fs::statvfs(folder) {
        Ok(stat) => stat,
        Err(why) => {
            let why = io::Error::from(why);
            return Finding::wrong(subject, cannot("look at", folder, &why), cure_for(&why, folder));
        }
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let found = format!("{} free for `{}`", size(free), folder.display());
    let cure =
        format!("make room: du -xh '{}' | sort -h, df -h; nothing is written when the disk is full", folder.display());
    // File systems that do not count their files say 0 of 0.
    if stat.f_files > 0 && stat.f_favail < FEW_FILES {
        let found = format!("room for only {} more files at `{}`", stat.f_favail, folder.display());
        return Finding::wrong(subject, found, "remove files there: df -i says which file system is full");
    }
    match free {
        ..TOO_LITTLE => Finding::wrong(subject, format!("only {found}"), cure),
        TOO_LITTLE..LITTLE => Finding::soon(subject, format!("only {found}"), cure),
        LITTLE.. => Finding::ok(subject, found),
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0x4000_0000.. => format!("{} GiB", bytes >> 30),
        0x0010_0000.. => format!("{} MiB", bytes >> 20),
        _ => format!("{} KiB", bytes >> 10),
    }
}
