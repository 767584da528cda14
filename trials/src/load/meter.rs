//! What a process takes, and what the machine gives: read from `/proc`, so that nothing that is measured knows of it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Linux counts processor time in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of a process so far, all threads.
pub fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The program's name may hold anything but ends with the last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok()).unwrap_or(0);
    TICK * (ticks(11) + ticks(12))
}

/// The same to the nanosecond, for a process whose threads do not come and go.
pub fn fine_cpu(pid: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|task| schedstat(&task.path().join("schedstat"))).sum()
}

/// Time that all cores together spent on anything, by whomever.
pub fn machine_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u32> = numbers.map(|field| field.parse().unwrap_or(0)).collect();
    // user, nice, system, (idle, iowait), irq, softirq; what a hypervisor took is idle to us.
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|at| ticks.get(*at)).sum::<u32>();
    TICK * busy
}

/// Processor time of this thread, to the nanosecond.
pub fn thread_cpu() -> Duration {
    schedstat(Path::new("/proc/thread-self/schedstat"))
}

fn schedstat(path: &Path) -> Duration {
    let told = fs::read_to_string(path).unwrap_or_default();
    Duration::from_nanos(told.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0))
}

/// Memory of a process that is in RAM, in bytes.
pub fn resident(pid: u32) -> u64 {
    status(pid, "VmRSS:").unwrap_or(0) * 1024
}

/// The part of it that is its own: not pages of its file, which all copies of the program share.
pub fn private(pid: u32) -> u64 {
    status(pid, "RssAnon:").unwrap_or(0) * 1024
}

/// The most of it that was ever in RAM.
pub fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:").unwrap_or(0) * 1024
}

/// Begins anew with the most.
pub fn forget_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

pub fn megabytes(bytes: u64) -> f64 {
    // A process has less than four thousand million kilobytes.
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// Every connection is a file: as many as the system lets this process have.
pub fn raise_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// When each of many had something, from a moment on, sorted.
#[derive(Debug)]
pub struct Spread(Vec<Duration>);

impl Spread {
    pub fn since(sent: Instant, mut at: Vec<Instant>) -> Self {
        at.sort();
        Self(at.into_iter().map(|at| at.saturating_duration_since(sent)).collect())
    }

    /// In seconds, until so many of a hundred had it.
    pub fn took(&self, percent: usize) -> f64 {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).map_or(f64::INFINITY, Duration::as_secs_f64)
    }

    pub const fn count(&self) -> usize {
        self.0.len()
    }
}

/// How many processes of the whole machine wanted to run, over the last minute.
pub fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default().to_owned()
}

fn status(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

pub fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, name)| name.trim()).to_owned()
}

/// The file system on which a folder lies: device and kind.
pub fn disk(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let rows = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let covering = rows.filter(|(_, at, _)| folder.starts_with(at)).max_by_key(|(_, at, _)| at.len());
    covering.map_or("unknown".to_owned(), |(device, _, kind)| format!("{kind} on {device}"))
}

/// How long the disk takes to have 4 KiB for good: the median and the slowest of a hundred.
pub fn fsync(folder: &Path) -> std::io::Result<(Duration, Duration)> {
    let path = folder.join("fsync");
    let mut file = fs::File::create(&path)?;
    let mut took = Vec::new();
    for _ in 0..100 {
        file.write_all(&[7; 4096])?;
        let begun = Instant::now();
        file.sync_data()?;
        took.push(begun.elapsed());
    }
    fs::remove_file(path)?;
    took.sort();
    Ok((took.get(50).copied().unwrap_or_default(), took.last().copied().unwrap_or_default()))
}
