//! A gateway over the network: believed like any other, and asked with a signer's signature on every call.

use identity::bundle::{Endpoint, Roots};
use identity::key::{EdKey, Sign as _};
use identity::principal::SignerName;
use identity::text::Bytes;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, Gateway, Provisional};
use wire::control::{Answer, Call, SignedCall};
use wire::known::Known;
use wire::permit::Ask;
use wire::tls::Expect;

use crate::desk::{Desk, DeskError};

#[derive(Debug)]
pub struct RemoteDesk {
    gateway: Believed,
    signer: SignerName,
    key: EdKey,
}

impl RemoteDesk {
    /// Connects and believes. The signer's key signs each call together with this connection.
    pub async fn connect(
        gateways: &[Gateway],
        roots: Roots<Endpoint>,
        known: &Known,
        (signer, key): (SignerName, EdKey),
    ) -> Result<(Self, Known), CallError> {
        let expect = Expect::Roots(roots);
        let mut last = None;
        for gateway in gateways {
            let attempt =
                async { Provisional::dial(gateway, &expect, None).await?.believe(Anchor::Known(known)).await };
            match attempt.await {
                Ok((gateway, newer)) => return Ok((Self { gateway, signer, key }, newer)),
                Err(why) => last = Some(why),
            }
        }
        Err(last.unwrap_or(CallError::Refused(Refusal::NotFound { what: "gateway".to_owned() })))
    }
}

impl Desk for RemoteDesk {
    async fn ask(&mut self, call: Call) -> Result<Answer, DeskError> {
        let malformed = |why: &dyn std::fmt::Display| Refusal::Malformed { why: why.to_string() };
        let call = serde_json::to_vec(&call).map_err(|why| malformed(&why))?;
        let signature = self.key.sign(&SignedCall::message(&self.gateway.exporter(), &call));
        let signature = signature.map_err(|why| malformed(&why))?;
        let signed = SignedCall { signer: self.signer.clone(), call: Bytes(call), signature: Bytes(signature) };
        Ok(self.gateway.ask(Ask::Control, &signed).await?)
    }
}
