//! Single flight: few dial one node at once, and whoever waits for one that does not answer is told so with the first.
//!
//! So a node that is dead keeps nobody from the others: it has a few turns of many, and one alone once it is known for that,
//! as behind a circuit breaker that is half open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use identity::principal::{NodeName, Principal};
use tokio::sync::Semaphore;

use crate::dial::no_stream::FailedTry;
use crate::dial::pool::CallKey;

/// Handshakes of this node at once: others wait for their turn, so that no peer takes a busy node for a flood.
pub(super) const AT_ONCE: usize = 64;
/// Of them, to one node.
pub(super) const OF_ONE: u32 = 8;

#[derive(Debug)]
pub(super) struct DialQueue {
    all: Semaphore,
    /// Only those that somebody wants right now, with how many do.
    nodes: Mutex<HashMap<NodeName, (usize, Arc<Queue>)>>,
}

#[derive(Debug)]
struct Queue {
    turns: Semaphore,
    /// By whom it was tried: what one shows may be no good, and another's is.
    failed: Mutex<HashMap<Principal, (Instant, Vec<FailedTry>)>>,
}

impl Default for DialQueue {
    fn default() -> Self {
        Self { all: Semaphore::new(AT_ONCE), nodes: Mutex::default() }
    }
}

impl DialQueue {
    /// Does it when it is this one's turn, unless somebody else has tried in vain since it waits. A node that is `suspect` is
    /// tried by one at a time.
    pub(super) async fn take<T>(
        &self,
        key: &CallKey,
        suspect: bool,
        work: impl Future<Output = Result<T, Vec<FailedTry>>>,
    ) -> Result<T, Vec<FailedTry>> {
        let in_turn = async {
            let _turn = self.all.acquire().await;
            work.await
        };
        self.wait(key, if suspect { OF_ONE } else { 1 }, in_turn).await
    }

    /// The same without a turn of those for all: what is done takes such turns itself.
    pub(super) async fn wait<T>(
        &self,
        CallKey { who, node }: &CallKey,
        turns: u32,
        work: impl Future<Output = Result<T, Vec<FailedTry>>>,
    ) -> Result<T, Vec<FailedTry>> {
        let since = Instant::now();
        let place = QueuePlace::new(self, node);
        // Neither is ever closed.
        let _own = place.queue.turns.acquire_many(turns).await;
        let found = place.queue.failed().get(who).filter(|(at, _)| *at > since).cloned();
        if let Some((_, tries)) = found {
            return Err(tries);
        }
        let done = work.await;
        match &done {
            Ok(_) => place.queue.failed().remove(who),
            Err(tries) => place.queue.failed().insert(who.clone(), (Instant::now(), tries.clone())),
        };
        done
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<NodeName, (usize, Arc<Queue>)>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn failed(&self) -> MutexGuard<'_, HashMap<Principal, (Instant, Vec<FailedTry>)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a node's queue, which is gone with the last that stands in it.
struct QueuePlace<'a> {
    queue: Arc<Queue>,
    all: &'a DialQueue,
    node: &'a NodeName,
}

impl<'a> QueuePlace<'a> {
    fn new(all: &'a DialQueue, node: &'a NodeName) -> Self {
        let new = || Arc::new(Queue { turns: Semaphore::new(OF_ONE as usize), failed: Mutex::default() });
        let mut nodes = all.nodes();
        let (count, queue) = nodes.entry(node.clone()).or_insert_with(|| (0, new()));
        *count += 1;
        Self { queue: Arc::clone(queue), all, node }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut nodes = self.all.nodes();
        if let Some((count, _)) = nodes.get_mut(self.node) {
            *count -= 1;
            if *count == 0 {
                nodes.remove(self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;
    use tokio::task::{JoinHandle, yield_now};

    use super::*;
    use crate::dial::no_stream::NotReached;

    fn key(who: &str, name: &str) -> CallKey {
        CallKey { who: format!("spiffe://harbor/user/{who}").parse().unwrap(), node: name.parse().unwrap() }
    }

    /// Calls that come to an end when they are told to.
    #[derive(Default)]
    struct Calls {
        queue: DialQueue,
        begun: AtomicUsize,
        end: Notify,
    }

    impl Calls {
        fn begin(self: &Arc<Self>, to: &'static str, suspect: bool, answers: bool) -> JoinHandle<bool> {
            self.begin_as("ann", to, suspect, answers)
        }

        fn begin_as(self: &Arc<Self>, who: &str, to: &str, suspect: bool, answers: bool) -> JoinHandle<bool> {
            let (calls, key) = (Arc::clone(self), key(who, to));
            tokio::spawn(async move {
                let work = async {
                    calls.begun.fetch_add(1, Ordering::Relaxed);
                    calls.end.notified().await;
                    let failed = FailedTry::new(&key.node, None, NotReached::Late);
                    if answers { Ok(()) } else { Err(vec![failed]) }
                };
                calls.queue.take(&key, suspect, work).await.is_ok()
            })
        }

        async fn settled(&self) -> usize {
            for _ in 0..1_000 {
                yield_now().await;
            }
            self.begun.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn one_node_has_a_few_turns_and_who_waits_fails_with_the_first() {
        let calls = Arc::<Calls>::default();
        let dead: Vec<_> = (0..200).map(|_| calls.begin("dead", false, false)).collect();
        assert_eq!(calls.settled().await, OF_ONE as usize);
        let well = calls.begin("well", false, true);
        assert_eq!(calls.settled().await, OF_ONE as usize + 1);
        calls.end.notify_waiters();
        assert!(well.await.unwrap());
        for call in dead {
            assert!(!call.await.unwrap());
        }
        assert_eq!(calls.settled().await, OF_ONE as usize + 1, "the others were told without a try");
        assert!(calls.queue.nodes().is_empty());
        // Whoever comes later tries anew.
        let again = calls.begin("dead", false, true);
        assert_eq!(calls.settled().await, OF_ONE as usize + 2);
        calls.end.notify_waiters();
        assert!(again.await.unwrap());
    }

    #[tokio::test]
    async fn nodes_that_are_known_to_be_dead_do_not_take_all_turns_together() {
        let calls = Arc::<Calls>::default();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let dead: Vec<_> = (0..20).flat_map(|_| names.map(|name| calls.begin(name, true, false))).collect();
        assert_eq!(calls.settled().await, names.len());
        let well = calls.begin("well", false, true);
        assert_eq!(calls.settled().await, names.len() + 1);
        calls.end.notify_waiters();
        assert!(well.await.unwrap());
        for call in dead {
            assert!(!call.await.unwrap());
        }
    }

    #[tokio::test]
    async fn what_one_shows_in_vain_does_not_count_for_another() {
        let calls = Arc::<Calls>::default();
        let ann: Vec<_> = (0..20).map(|_| calls.begin("alpha", false, false)).collect();
        let bob = calls.begin_as("bob", "alpha", false, true);
        assert_eq!(calls.settled().await, OF_ONE as usize);
        calls.end.notify_waiters();
        assert_eq!(calls.settled().await, OF_ONE as usize + 1);
        calls.end.notify_waiters();
        assert!(bob.await.unwrap());
        for call in ann {
            assert!(!call.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_leaves_nothing_behind() {
        let calls = Arc::<Calls>::default();
        let all: Vec<_> = (0..20).map(|_| calls.begin("dead", false, false)).collect();
        calls.settled().await;
        all.iter().for_each(JoinHandle::abort);
        for call in all {
            assert!(call.await.unwrap_err().is_cancelled());
        }
        assert!(calls.queue.nodes().is_empty());
    }
}
