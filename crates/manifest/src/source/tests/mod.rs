//! Every rule shows its message, whole.

mod scene;
mod words;
mod shapes;
mod whole;
mod hostile;
mod editors;
