//! A gateway over the network: believed like any other, and asked with a signer's signature on every call.

use identity::bundle::{Endpoint, Roots};
use identity::envelope::Envelope;
use identity::text::Bytes;
use org::refusal::Refusal;
use wire::connect::{Anchor, Believed, CallError, GatewayAddress, Provisional};
use wire::control::{Call, ControlAnswer, SignedCall};
use wire::known::{BadKnowledge, Known};
use wire::permit::Ask;
use wire::sync::{RecoverRequest, RecoveryBegun};
use wire::tls::Expect;
use wire::trust;

use crate::key::Named;
use crate::session::desk::{Answering, Desk, DeskError};

#[derive(Debug)]
pub struct RemoteDesk {
    gateways: Vec<GatewayAddress>,
    expect: Expect,
    known: Known,
    tip: Option<Envelope>,
    /// Who of these is a signer now is known when the gateway is believed.
    keys: Vec<Named>,
    line: Option<Believed>,
}

impl RemoteDesk {
    /// Connects and believes. Nothing can be asked before it has keys.
    pub async fn connect(
        gateways: Vec<GatewayAddress>,
        roots: Roots<Endpoint>,
        known: Known,
        tip: Option<Envelope>,
    ) -> Result<Self, CallError> {
        let mut desk = Self { gateways, expect: Expect::Roots(roots), known, tip, keys: Vec::new(), line: None };
        desk.line = Some(desk.dial().await?);
        Ok(desk)
    }

    /// The signer's key signs each call together with the connection.
    #[must_use]
    pub fn with_keys(self, keys: Vec<Named>) -> Self {
        Self { keys, ..self }
    }

    /// What the gateway showed when it was believed.
    pub const fn known(&self) -> &Known {
        &self.known
    }

    async fn dial(&mut self) -> Result<Believed, CallError> {
        let mut told = None;
        for gateway in self.gateways.clone() {
            let mut believed = Box::pin(self.believe(&gateway)).await;
            // The roots may have moved on: which are trusted now is signed, whoever hands it over. If it is not, what was
            // shown first says more: another org may answer there.
            if believed.as_ref().is_err_and(CallError::is_unknown_root)
                && let Ok((newer, trusted)) = Box::pin(trust::refresh(&gateway, &self.known)).await
            {
                self.expect = Expect::Roots(Roots::of_all(&trusted.endpoint));
                self.known = newer;
                believed = Box::pin(self.believe(&gateway)).await;
            }
            match believed {
                Ok((believed, newer)) => {
                    self.known = newer;
                    return Ok(believed);
                }
                Err(why) => told = Some(CallError::or_rather(told, why)),
            }
        }
        Err(told.unwrap_or(CallError::Refused(Refusal::NotFound { what: "gateway".to_owned() })))
    }

    /// One that missed what was decided elsewhere, or that is an older copy, is believed by what is known here: the session
    /// hands it what it lacks, and looks again.
    async fn believe(&self, gateway: &GatewayAddress) -> Result<(Believed, Known), CallError> {
        let dialed = || Provisional::dial(gateway, &self.expect, None);
        match dialed().await?.believe(Anchor::Known(&self.known, self.tip.as_ref())).await {
            Err(CallError::Knowledge { source: BadKnowledge::Head(why), .. }) if why.is_behind() => {
                dialed().await?.believe(Anchor::Behind(&self.known)).await
            }
            believed => believed,
        }
    }

    async fn ask_on(&self, line: &mut Believed, call: &Call) -> Result<ControlAnswer, DeskError> {
        // A recovery carries its own authority, and whoever brings it may be nobody yet.
        if let Call::Recover { recovery } = call {
            let request = RecoverRequest { recovery: recovery.clone() };
            let begun: RecoveryBegun = line.ask(Ask::Recover, &request).await?;
            return Ok(ControlAnswer::Recovering { due_at: begun.due_at });
        }
        let encoded = serde_json::to_vec(call).map_err(|why| Refusal::Malformed { why: why.to_string() })?;
        let quorum = &self.known.signers.quorum;
        let (current, others): (Vec<_>, Vec<_>) =
            self.keys.iter().partition(|(name, key)| quorum.key_of(name) == Some(key.public()));
        let mut refused = Refusal::NotAnOperator;
        // Whoever signs may have changed since: then one of the others, or one whom the recovery keys named.
        for (signer, key) in current.into_iter().take(1).chain(others) {
            let signature = Bytes(key.sign(&SignedCall::message(&line.exporter(), &encoded))?);
            let sealed = SignedCall { signer: signer.clone(), call: Bytes(encoded.clone()), signature };
            match line.ask(Ask::Control, &sealed).await {
                Err(CallError::Refused(why @ Refusal::NotAnOperator)) => refused = why,
                answer => return Ok(answer?),
            }
        }
        Err(refused.into())
    }
}

impl Desk for RemoteDesk {
    fn is_served(&self) -> bool {
        true
    }

    fn ask(&mut self, call: Call) -> Answering<'_> {
        Box::pin(async move {
            // A person may have thought for a while: a connection that rested too long is opened again. A change is sent
            // once; whether it was taken, the ledger says.
            let rested = self.line.take();
            if let Some(mut line) = rested {
                match self.ask_on(&mut line, &call).await {
                    Err(DeskError::Call(CallError::BrokenOff { .. })) if !matches!(call, Call::Take { .. }) => {}
                    answer => {
                        self.line = Some(line);
                        return answer;
                    }
                }
            }
            let mut line = self.dial().await?;
            let answer = self.ask_on(&mut line, &call).await;
            self.line = Some(line);
            answer
        })
    }
}
