//! Who may join, and what spends an invite.

mod enroll;
mod kinds;
mod approve;
mod member;
mod grant;
mod uses;
