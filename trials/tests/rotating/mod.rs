//! Twenty machines go through a rotation: some are off, one is killed, one has a full disk, one cannot reach the gateway.
