//! One test binary: the layout of the house, and walks with the real programs.

mod layout;
mod first_walk;
