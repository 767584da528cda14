//! A bundle that another machine joined with is shown again: refused as it is, and an operator is told.
//!
//! The machine that joined with it goes on: whoever finds an old file must not be able to cut it off.

use ground::clock;
use identity::id::InviteId;
use org::invite::admission::{Claim, ClaimAuthority, Purpose, Transcript};
use org::invite::{Invite, InviteKind};
use wire::control::Reuse;
use wire::enroll::EnrollRequest;

use crate::answer::enroll::Setting;
use crate::gateway::Gateway;

/// Looks at a request that was refused.
pub(crate) async fn notice(gateway: &Gateway, request: &EnrollRequest, setting: Setting) {
    let Some((invite, claim)) = shown_again(gateway, request).await else {
        return;
    };
    // Only a holder of the bundle's key is worth a line: anybody can name an invite.
    if !is_proven(gateway, request, &invite, &claim, setting) {
        return;
    }
    let (name, node_key) = (claim.name, claim.node_key.digest());
    let reuse = Reuse { at: clock::now(), source: setting.source, name, node_key, times: 1 };
    let id: InviteId = invite.id;
    tracing::error!(
        invite = %id,
        source = %setting.source,
        "a bundle that another machine joined with was shown again, and refused. Look: freehold invite show {id}"
    );
    // Nobody waits for it: the refusal stands whether or not the disk takes the line.
    drop(gateway.writer.submit(move |tx| tx.keep(|tx| tx.ledger.note_reuse(id, &reuse))));
}

/// The bundle's invite, if another node key has used it.
async fn shown_again(gateway: &Gateway, request: &EnrollRequest) -> Option<(Invite, Claim)> {
    let claim: Claim = request.claim.peek(Some(gateway.about.org_id)).ok()?;
    let ClaimAuthority::Invite(id) = claim.authority else {
        return None;
    };
    let state = gateway.state().await;
    let (_, record) = state.invite(id)?;
    let by_another = !record.spent.is_empty() && !record.spent.contains_key(&claim.node_key.digest());
    (record.invite.kind == InviteKind::Bundle && by_another).then(|| (record.invite.clone(), claim))
}

fn is_proven(gateway: &Gateway, request: &EnrollRequest, invite: &Invite, claim: &Claim, setting: Setting) -> bool {
    let signed = request.claim.open_signed_by::<Claim>(Some(gateway.about.org_id), &claim.keys(invite));
    let (Ok(_), Ok(nonce)) = (signed, request.nonce.0.as_slice().try_into()) else {
        return false;
    };
    let transcript = Transcript::new(
        setting.challenge.bytes,
        nonce,
        request.claim.digest(),
        &request.svid.request.0,
        &request.svid.binding,
        setting.exporter,
    );
    match (invite.second_key(), &request.by_invite) {
        (Some(key), Some(signature)) => {
            transcript.is_signed(Purpose::Enroll, key, signature)
                && transcript.is_signed(Purpose::Enroll, claim.node_key, &request.by_node)
        }
        _ => false,
    }
}
