//! Numbers that look random, and are the same for the same seed.

use identity::id::Digest;

#[derive(Debug, Clone, Copy)]
pub struct Dice(u64);

impl Dice {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for each purpose: whoever throws more of one changes nothing about the others.
    pub fn of(seed: u64, purpose: &str) -> Self {
        let Digest(bytes) = Digest::of(format!("{seed} {purpose}").as_bytes());
        Self(bytes.iter().fold(0, |all, byte| all.wrapping_mul(257).wrapping_add(u64::from(*byte))))
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`; 0 if there is nothing less.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap_or(0)
    }

    /// So many times in a hundred.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn choose<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }

    /// One of few, which are there.
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        let at = self.below(N);
        of.into_iter().nth(at).unwrap_or_else(|| panic!("nothing to choose from"))
    }
}
