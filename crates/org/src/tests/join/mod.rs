//! Who may join, and what spends an invite.

mod joining;
mod kinds;
mod approving;
mod belonging;
mod granting;
mod spending;
