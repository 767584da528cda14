//! What peers told of the org: looked at one after the other, with time in between. Each costs the disk and signatures.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use wire::peer::News;

const BETWEEN: Duration = Duration::from_secs(1);
/// Peers that know more have the same news, or one of the last few. They wait for 5 s until these are taken in.
const WAITING: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Hearing {
    waiting: VecDeque<News>,
    last: Option<Instant>,
    left_out: u64,
    disbelieved: u64,
}

impl Hearing {
    pub(crate) fn take(&mut self, news: News) {
        if self.waiting.contains(&news) {
            return;
        }
        if self.waiting.len() < WAITING {
            self.waiting.push_back(news);
            return;
        }
        self.left_out = self.left_out.saturating_add(1);
        // Whoever took the tunnel over could say this all day.
        if self.left_out.is_power_of_two() {
            tracing::warn!(times = self.left_out, "the tunnel tells more news than there can be: they are left out");
        }
    }

    /// When the next is to be looked at.
    pub(crate) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        self.waiting.front().map(|_| self.last.map_or(now, |last| last + BETWEEN))
    }

    pub(crate) fn look_at_next(&mut self) -> Option<News> {
        self.last = Some(Instant::now());
        self.waiting.pop_front()
    }

    pub(crate) fn disbelieve(&mut self, why: &str) {
        self.disbelieved = self.disbelieved.saturating_add(1);
        if self.disbelieved.is_power_of_two() {
            tracing::warn!(why, times = self.disbelieved, "what a peer told of the org does not hold");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene;

    fn news(version: u64) -> News {
        let founding = scene::founding();
        let mut head = scene::head(&founding);
        head.version = version;
        let head = Some(scene::sealed(&founding, &head, "ann"));
        News { signers: Vec::new(), head, rivals: Vec::new(), suspensions: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn news_are_looked_at_once_a_second_and_what_is_too_much_is_counted() {
        let mut hearing = Hearing::default();
        assert_eq!(hearing.due(), None);
        for version in 1..=1_000 {
            hearing.take(news(version));
        }
        let begun = Instant::now();
        let mut looked_at = Vec::new();
        while let Some(due) = hearing.due() {
            tokio::time::sleep_until(due).await;
            looked_at.push((begun.elapsed().as_secs(), hearing.look_at_next().unwrap().head));
        }
        let expected: Vec<_> = (0..4).map(|n| (n, news(n + 1).head)).collect();
        assert_eq!((looked_at, hearing.left_out), (expected, 996));
    }

    #[tokio::test(start_paused = true)]
    async fn what_many_peers_tell_is_looked_at_once() {
        let mut hearing = Hearing::default();
        for _ in 0..1_000 {
            hearing.take(news(7));
        }
        hearing.take(news(8));
        assert_eq!((hearing.waiting.len(), hearing.left_out), (2, 0));
    }
}
