//! The tunnel's process, as the agent tells of it: does it run, and does it listen where it should?

use member::agent::tunnel::view::{State, TunnelView};
use terminal::finding::Finding;

use crate::program::Program;

pub(crate) fn tunnel(tunnel: Option<&TunnelView>, program: Program) -> Finding {
    let subject = "tunnel";
    let Some(tunnel) = tunnel else {
        let cure = format!("start it: {}", program.agent());
        return Finding::wrong(subject, "the agent does not run, and with it no tunnel", cure);
    };
    match (tunnel.state, &tunnel.problem) {
        (State::Running, _) if !tunnel.failed.is_empty() => {
            let failed = tunnel.failed.iter().map(|(place, why)| format!("{}: {why}", String::from(place.clone())));
            let cure = format!("free the port, or declare another in the fleet; see {}", program.command("status"));
            Finding::wrong(subject, failed.collect::<Vec<_>>().join("; "), cure)
        }
        (State::Running, _) if !tunnel.troubles.is_empty() => {
            let troubles = tunnel.troubles.iter().map(|(about, why)| format!("{about}: {why}"));
            Finding::soon(
                subject,
                troubles.collect::<Vec<_>>().join("; "),
                format!("each says what helps; see {}", program.command("status")),
            )
        }
        (State::Running, _) if tunnel.listens.is_empty() => Finding::ok(subject, "it runs, and listens nowhere"),
        (State::Running, _) => {
            let at = tunnel.listens.iter().map(|(place, at)| format!("{} {at}", String::from(place.clone())));
            Finding::ok(subject, format!("it runs: {}", at.collect::<Vec<_>>().join(", ")))
        }
        (State::Waiting, why) => {
            let why = why.clone().unwrap_or_else(|| "it ended".to_owned());
            Finding::wrong(subject, why, "it is started again by itself; the agent's log says more")
        }
        (State::Off, _) => Finding::wrong(
            subject,
            "it does not run: the fleet gives this node nothing to carry, no service, no user and nothing to call",
            "operators declare it in the fleet, and publish: freehold publish",
        ),
    }
}

#[cfg(test)]
mod tests {
    use terminal::finding::Mark;

    use super::*;

    #[test]
    fn a_node_with_nothing_to_carry_is_not_told_to_sync() {
        let off = tunnel(Some(&TunnelView::default()), Program::Node);
        assert_eq!(off.mark, Mark::Wrong);
        assert!(off.found.contains("nothing to carry") && !off.cure.as_deref().unwrap().contains("sync"), "{off:?}");
    }
}
