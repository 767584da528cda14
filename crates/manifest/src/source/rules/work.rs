//! How much all rules of the whole fleet may take together, and which file used it.

use std::collections::BTreeMap;

use identity::principal::glob::{Effort, NameGlob, TooHard};

use crate::source::place::{Notes, Spot, error};

#[derive(Debug)]
pub(crate) struct Work {
    effort: Effort,
    /// What helps against what is done now.
    cure: &'static str,
    /// By file: the steps for what stands in it, and the place that was looked at last.
    used: BTreeMap<usize, (u64, Spot)>,
}

impl Work {
    pub(crate) const fn of(steps: u32) -> Self {
        Self { effort: Effort::of(steps), cure: "", used: BTreeMap::new() }
    }

    /// From now on it is about this.
    pub(crate) const fn turn_to(&mut self, cure: &'static str) {
        self.cure = cure;
    }

    /// Something is looked at for the sake of what stands there.
    pub(crate) fn step(&mut self, at: Spot) -> Result<(), TooHard> {
        self.note(at, 1);
        self.effort.step()
    }

    pub(crate) fn shared_name(
        &mut self,
        at: Spot,
        glob: &NameGlob,
        other: &NameGlob,
    ) -> Result<Option<String>, TooHard> {
        let before = self.effort.left();
        let shared = glob.shared_name_within(other, &mut self.effort);
        self.note(at, before - self.effort.left());
        shared
    }

    fn note(&mut self, at: Spot, steps: u32) {
        let used = self.used.entry(at.file).or_insert((0, at));
        *used = (used.0 + u64::from(steps), at);
    }

    /// Told of the file that used most.
    pub(crate) fn tell(self, notes: &mut Notes<'_>) {
        if let Some((_, at)) = self.used.into_values().max_by_key(|(steps, _)| *steps) {
            let draft = error(at, "it takes too long to check what this file says against all the rest");
            notes.push(draft.hint(self.cure));
        }
    }
}
