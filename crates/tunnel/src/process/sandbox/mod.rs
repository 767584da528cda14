//! The sandbox (landlock, seccomp): what the tunnel's process gives up before it does anything.
//!
//! New privileges, core files, the file system, sockets of this machine, and other processes.
//!
//! It speaks with strangers. Whoever takes it over finds no file to read but those by which names are resolved, none to
//! write, and no other program of this machine to ask, but over the network. Done before any thread is made, since each thread is confined by itself.

mod calls;
mod processes;
mod sockets;

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// What name resolution reads. Whole folders, since files in them are replaced while it runs.
const READABLE: [&str; 9] = [
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/run/systemd/resolve",
    "/run/resolvconf",
];
/// The newest that is asked for; older kernels give what they have.
const WANTED: ABI = ABI::V6;

/// What is in force, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confined {
    pub files: FileSandbox,
    /// Why sockets of this machine are open to it; nothing if they are not.
    pub sockets: Option<String>,
    /// Why it could make other processes; nothing if it cannot.
    pub processes: Option<String>,
    /// So many files and sockets at once.
    pub open_files: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileSandbox {
    Landlock { abi: u32, whole: bool },
    Nothing { why: String },
}

impl Confined {
    /// For the log, which is there only when it is done.
    pub fn complain(&self) {
        if let FileSandbox::Nothing { why } = &self.files {
            tracing::warn!(why, "the tunnel could not be kept from the file system");
        }
        if let Some(why) = &self.sockets {
            tracing::warn!(why, "the tunnel could not be kept from sockets of this machine");
        }
        if let Some(why) = &self.processes {
            tracing::warn!(why, "the tunnel could not be kept from making processes");
        }
    }
}

impl std::fmt::Display for Confined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.files {
            FileSandbox::Landlock { abi, whole: true } => write!(f, "landlock ABI {abi}"),
            FileSandbox::Landlock { abi, whole: false } => {
                write!(f, "landlock ABI {abi}, in part: the kernel is older")
            }
            FileSandbox::Nothing { why } => write!(f, "none: {why}"),
        }?;
        match &self.sockets {
            None => write!(f, "; no sockets of this machine"),
            Some(why) => write!(f, "; sockets of this machine are open to it: {why}"),
        }?;
        match &self.processes {
            None => write!(f, "; no other processes"),
            Some(why) => write!(f, "; it can make other processes: {why}"),
        }
    }
}

/// Only from the first thread, before there are others.
pub fn confine() -> io::Result<Confined> {
    rustix::thread::set_no_new_privs(true)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut open = rustix::process::getrlimit(Resource::Nofile);
    open.current = open.maximum;
    rustix::process::setrlimit(Resource::Nofile, open)?;
    // Best effort: what is in force is told, and what is not.
    let files = close_files().map_or_else(|why| FileSandbox::Nothing { why: why.to_string() }, |status| files(&status));
    let sockets = sockets::close().err().map(|why| why.to_string());
    let processes = processes::close().err().map(|why| why.to_string());
    Ok(Confined { files, sockets, processes, open_files: rustix::process::getrlimit(Resource::Nofile).current })
}

fn close_files() -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(READABLE, AccessFs::ReadFile | AccessFs::ReadDir))?
        .restrict_self()
}

fn files(status: &RestrictionStatus) -> FileSandbox {
    match (&status.ruleset, &status.landlock) {
        (_, LandlockStatus::NotEnabled) => FileSandbox::Nothing { why: "landlock is not enabled".to_owned() },
        (RulesetStatus::NotEnforced, _) | (_, LandlockStatus::NotImplemented) => {
            FileSandbox::Nothing { why: "kernel too old".to_owned() }
        }
        (enforced, LandlockStatus::Available { effective_abi, .. }) => {
            FileSandbox::Landlock { abi: *effective_abi as u32, whole: *enforced == RulesetStatus::FullyEnforced }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, ToSocketAddrs as _, UdpSocket};
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::os::unix::process::CommandExt as _;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const FOLDER: &str = "FREEHOLD_SANDBOX_FOLDER";
    const CHILD: &str = "process::sandbox::tests::what_a_confined_process_can_do";

    /// A process of its own, since there is no way back.
    #[test]
    fn a_confined_process_reads_no_key_and_writes_nowhere() {
        let scope = tempfile::tempdir().unwrap();
        std::fs::write(scope.path().join("node.key"), "secret").unwrap();
        let _agent = UnixListener::bind(scope.path().join("agent.sock")).unwrap();
        let run = |confined: &str| {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", CHILD, "--ignored", "--nocapture"])
                .env(FOLDER, scope.path())
                .env("FREEHOLD_SANDBOX_CONFINED", confined)
                .output()
                .unwrap();
            String::from_utf8(child.stdout).unwrap()
        };
        let free = run("no");
        assert!(
            free.contains("key: true") && free.contains("write: true") && free.contains("privileges: true"),
            "{free}"
        );
        for free_to in ["socket: true", "bus: true", "datagrams: true", "forked: true", "spawned: true"] {
            assert!(free.contains(free_to), "{free_to}: {free}");
        }
        assert!(free.contains("unshared: Ok(())") && free.contains("moved: Err(Os { code: 22,"), "{free}");
        let said = run("yes");
        assert!(said.contains("privileges: false") && said.contains("core: Some(0)"), "{said}");
        assert!(said.contains("; no sockets of this machine; no other processes"), "{said}");
        for kept in ["socket: false", "bus: false", "pair: true", "network: true", "localhost: true", "thread: true"] {
            assert!(said.contains(kept), "{kept}: {said}");
        }
        // Refused before landlock is asked about the program, whose answer would be another one.
        for kept in ["datagrams: false", "spawned: not permitted"] {
            assert!(said.contains(kept), "{kept}: {said}");
        }
        // Before it forks, the standard library makes a pair that is refused, too.
        let alone = run("processes");
        for kept in ["datagrams: true", "forked: not permitted", "spawned: not permitted", "thread: true"] {
            assert!(alone.contains(kept), "{kept}: {alone}");
        }
        assert!(said.contains("unshared: Err(Os { code: 1,") && said.contains("moved: Err(Os { code: 1,"), "{said}");
        // Where the kernel has no landlock there is nothing to see, and that is said.
        if said.contains("sandbox: none") {
            eprintln!("NOT TESTED: this kernel has no landlock");
            return;
        }
        assert!(said.contains("sandbox: landlock ABI"), "{said}");
        for kept in ["key: false", "list: false", "write: false", "tmp: false", "run: false"] {
            assert!(said.contains(kept), "{kept}: {said}");
        }
        assert!(said.contains("names: true"), "{said}");
    }

    #[test]
    #[ignore = "run by the test above, in a process of its own"]
    fn what_a_confined_process_can_do() {
        let Some(folder) = std::env::var_os(FOLDER) else { return };
        let folder = Path::new(&folder);
        let no_name_space = std::fs::File::open("/dev/null").unwrap();
        match std::env::var("FREEHOLD_SANDBOX_CONFINED").as_deref() {
            Ok("yes") => println!("sandbox: {}", confine().unwrap()),
            Ok("processes") => {
                rustix::thread::set_no_new_privs(true).unwrap();
                processes::close().unwrap();
            }
            _ => {}
        }
        println!("key: {}", std::fs::read(folder.join("node.key")).is_ok());
        println!("list: {}", std::fs::read_dir(folder).is_ok());
        println!("write: {}", std::fs::write(folder.join("new"), "").is_ok());
        println!("tmp: {}", std::fs::write(std::env::temp_dir().join("freehold-sandbox"), "").is_ok());
        println!("run: {}", Command::new("/bin/true").status().is_ok());
        println!("spawned: {}", ran(&mut Command::new("/bin/true")));
        // Whoever is to be somebody is forked first.
        println!("forked: {}", ran(Command::new("/bin/true").uid(rustix::process::geteuid().as_raw())));
        println!("thread: {}", std::thread::Builder::new().spawn(|| 4).is_ok_and(|four| four.join().unwrap() == 4));
        #[expect(deprecated, reason = "files are not among what is unshared, and for the rest it is safe")]
        let unshared = rustix::thread::unshare(rustix::thread::UnshareFlags::FS);
        println!("unshared: {unshared:?}");
        println!("moved: {:?}", rustix::thread::move_into_link_name_space(no_name_space.as_fd(), None));
        println!("socket: {}", UnixStream::connect(folder.join("agent.sock")).is_ok());
        println!("bus: {}", UnixDatagram::unbound().is_ok());
        println!("pair: {}", UnixStream::pair().is_ok());
        println!("datagrams: {}", UnixDatagram::pair().is_ok());
        println!("network: {}", TcpListener::bind("127.0.0.1:0").is_ok() && UdpSocket::bind("[::]:0").is_ok());
        println!("localhost: {}", ("localhost", 80).to_socket_addrs().is_ok_and(|mut found| found.next().is_some()));
        println!("names: {}", std::fs::read("/etc/hosts").is_ok());
        println!("privileges: {}", !rustix::thread::no_new_privs().unwrap());
        println!("core: {:?}", rustix::process::getrlimit(Resource::Core).maximum);
        let _ = std::fs::remove_file(std::env::temp_dir().join("freehold-sandbox"));
    }

    fn ran(program: &mut Command) -> String {
        match program.status() {
            Ok(status) => status.success().to_string(),
            Err(why) if why.raw_os_error() == Some(libc::EPERM) => "not permitted".to_owned(),
            Err(why) => why.to_string(),
        }
    }
}
