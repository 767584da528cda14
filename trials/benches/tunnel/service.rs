//! The service that all ways lead to, a process of its own: the first byte of a connection says what is wanted of it.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Says so when it is there, takes everything, compares it with what was to come, and says at the end how much it was.
pub const SINK: u8 = b'S';
/// Sends back what comes.
pub const ECHO: u8 = b'E';
/// Says when connections were broken off since the last time it was asked: seconds since 1970, as a JSON list.
pub const BROKEN: u8 = b'B';

/// When connections of `ECHO` were broken off.
static BROKE: Mutex<Vec<f64>> = Mutex::new(Vec::new());

/// What bulk streams carry, again and again.
pub const BLOCK: usize = 128 << 10;

/// No two places of a block look alike for long, so that bytes which are lost, doubled or exchanged are seen.
pub fn block() -> Vec<u8> {
    let words = (0..u32::try_from(BLOCK / 4).unwrap_or(u32::MAX)).map(|at| at.wrapping_mul(2_654_435_761));
    words.flat_map(u32::to_le_bytes).collect()
}

/// Listens at the address, says so on standard output, and serves until it is killed.
pub async fn serve(at: SocketAddr) {
    let listener = TcpListener::bind(at).await.unwrap_or_else(|why| panic!("{at}: {why}"));
    println!(
        "{}",
        serde_json::json!({ "listens": listener.local_addr().map(|at| at.to_string()).unwrap_or_default() })
    );
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let _ = socket.set_nodelay(true);
        tokio::spawn(async move {
            // Whoever called sees how it ended.
            let _ = answer(socket).await;
        });
    }
}

async fn answer(mut socket: TcpStream) -> std::io::Result<()> {
    match socket.read_u8().await? {
        SINK => sink(socket).await,
        ECHO => {
            let ended = echo(socket).await;
            if ended.is_err() {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                BROKE.lock().unwrap_or_else(PoisonError::into_inner).push(now.as_secs_f64());
            }
            ended
        }
        BROKEN => {
            let broke = std::mem::take(&mut *BROKE.lock().unwrap_or_else(PoisonError::into_inner));
            socket.write_all(serde_json::json!(broke).to_string().as_bytes()).await?;
            socket.shutdown().await
        }
        _ => Ok(()),
    }
}

async fn sink(mut socket: TcpStream) -> std::io::Result<()> {
    let (expected, mut room, mut total) = ([block(), block()].concat(), vec![0; BLOCK], 0_u64);
    let mut at = 0;
    socket.write_u8(SINK).await?;
    loop {
        let read = socket.read(&mut room).await?;
        if read == 0 {
            break;
        }
        if room.get(..read) != expected.get(at..at + read) {
            return Err(std::io::Error::other("other bytes came than were sent"));
        }
        at = (at + read) % BLOCK;
        total += read as u64;
    }
    socket.write_u64(total).await?;
    socket.shutdown().await
}

/// Little room: thousands of them wait.
async fn echo(mut socket: TcpStream) -> std::io::Result<()> {
    let mut room = [0; 256];
    loop {
        let read = socket.read(&mut room).await?;
        if read == 0 {
            return socket.shutdown().await;
        }
        socket.write_all(room.get(..read).unwrap_or_default()).await?;
    }
}
