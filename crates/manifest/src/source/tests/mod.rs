//! Every rule shows its message, whole; what is hostile ends in words.

mod scene;
mod shapes;
mod names;
mod whole;
mod hostile;
mod meaning;
mod editors;
mod tunnels;
mod svids;
