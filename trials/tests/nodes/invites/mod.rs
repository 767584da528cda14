//! Every kind of invite with the real programs: what it lets in, what it refuses, and what is seen of it.

mod keys;
mod patterns;
mod bundles;
mod waivers;
mod replace;
mod standing_patterns;
mod page;
