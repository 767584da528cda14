//! Tunnels: services that reach each other by name, the programs that people use, and hosts on a real network.

mod services;
mod programs;
mod hosts;
