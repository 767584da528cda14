//! What we seal in public formats: programs that others made open it, and we open what they made.

mod boxes;
mod backups;
