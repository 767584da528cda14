//! Calls: how a node is reached, what is told of it, and how programs come in.

pub mod calling;
mod seeing;
mod entering;
