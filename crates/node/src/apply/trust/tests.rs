//! Bundles are taken
