//! Bytes go both ways, ends and breaks are carried, and a slow reader slows the writer.

use manifest::stored::Caller;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::scene::{Org, node};
use super::town::{BOTH, House, alpha_and_beta, echoed, service, within};

#[tokio::test]
async fn bytes_go_both_ways_over_either_transport() {
    for transport in BOTH {
        let (_org, alpha, beta) = alpha_and_beta(transport).await;
        let mut program = beta.call("wiki").await.unwrap();
        echoed(&mut program, b"ahoy").await;
        let long: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (mut from, mut to) = program.split();
        let mut back = vec![0; long.len()];
        let (sent, read) = within(async { tokio::join!(to.write_all(&long), from.read_exact(&mut back)) }).await;
        (sent.unwrap(), read.unwrap());
        assert!(back == long);
        let seen = beta.dialer.views();
        assert_eq!((seen[0].transport, seen[0].streams, seen[0].connections), (transport, 1, 1));
        assert_eq!(alpha.held.book.open(), 1);
        let count = &alpha.held.meter.counts()[0];
        assert_eq!((count.sent, count.open, count.incoming), (3_000_004, 1, true));
    }
}
