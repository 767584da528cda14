//! Streams that are held open and mostly say nothing; each notes when it ends. Words on standard input say what to do.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::load::{Load, connect};
use crate::service::ECHO;

/// Opened at a time.
const AT_ONCE: usize = 32;

/// What it says after each word.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StreamCount {
    /// Those that sent a byte back when asked last.
    pub alive: usize,
    /// Seconds since 1970 at which streams ended, as they saw it; sorted.
    pub ended: Vec<f64>,
}

enum Told {
    Alive,
    Ended(f64),
}

/// Opens all, says so, and then obeys each line: `check` (each sends a byte and gets it back; those that end are told) and
/// `ended N` (waits until so many have ended). It ends with its input.
pub async fn hold(load: &Load) {
    let (asked, turns) = (watch::channel(0_u64).0, Arc::new(Semaphore::new(AT_ONCE)));
    let (told, mut answers) = mpsc::unbounded_channel();
    for _ in 0..load.streams {
        let (at, turns, told, asked) = (load.at, Arc::clone(&turns), told.clone(), asked.subscribe());
        tokio::spawn(async move {
            let mut socket = {
                let _turn = turns.acquire().await;
                connect(at, ECHO).await
            };
            let _ = told.send(Told::Alive);
            rest(&mut socket, asked, &told).await;
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let _ = told.send(Told::Ended(now.as_secs_f64()));
        });
    }
    let mut ended = Vec::new();
    let mut lines = lines();
    let mut wanted = load.streams;
    loop {
        let mut alive = 0;
        while alive + ended.len() < wanted {
            match answers.recv().await {
                Some(Told::Alive) => alive += 1,
                Some(Told::Ended(at)) => ended.push(at),
                None => return,
            }
        }
        ended.sort_by(f64::total_cmp);
        println!("{}", serde_json::json!(StreamCount { alive, ended: ended.clone() }));
        let Some(line) = lines.recv().await else { return };
        wanted = if let Some(count) = line.strip_prefix("ended ").and_then(|count| count.parse().ok()) {
            count
        } else {
            asked.send_modify(|turn| *turn += 1);
            load.streams
        };
    }
}

fn lines() -> mpsc::UnboundedReceiver<String> {
    let (read, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().map_while(Result::ok).try_for_each(|line| read.send(line)));
    lines
}

async fn echoes(socket: &mut TcpStream) -> std::io::Result<()> {
    socket.write_all(&[7]).await?;
    let mut back = [0];
    socket.read_exact(&mut back).await?;
    if back == [7] { Ok(()) } else { Err(std::io::Error::other("another byte came back")) }
}

/// Until the stream ends.
async fn rest(socket: &mut TcpStream, mut asked: watch::Receiver<u64>, told: &mpsc::UnboundedSender<Told>) {
    loop {
        let mut one = [0];
        let asked = tokio::select! {
            _ = socket.read(&mut one) => false,
            changed = asked.changed() => changed.is_ok(),
        };
        if !asked || echoes(socket).await.is_err() || told.send(Told::Alive).is_err() {
            return;
        }
    }
}
