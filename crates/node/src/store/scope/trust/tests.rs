//! Paths
