//! A gateway's folder: its keys, its certificates, where it answers. The operators' keys are never here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ground::file::{self, Access, Lock};
use ground::random;
use identity::authority::Authority;
use identity::bundle::{Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::id::OrgId;
use identity::key::{EdKey, P256Key};
use identity::principal::{Address, NodeName, OrgName};
use pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

use crate::store::scope::{Scope, ScopeError, read_json, read_key, write_json};

#[derive(Debug, Clone)]
pub struct GatewayFolder {
    pub folder: PathBuf,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayFile {
    pub schema: u32,
    pub org: OrgName,
    pub org_id: OrgId,
    pub node: NodeName,
    /// Where machines find it.
    pub addresses: Vec<Address>,
}

/// Where a running gateway listens on this machine; gone when it stops.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServingFile {
    pub listen: SocketAddr,
    pub pid: u32,
    /// Where this machine's own programs come in, if that is another port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<SocketAddr>,
}

impl ServingFile {
    /// How this machine itself reaches it.
    pub fn dial(&self) -> SocketAddr {
        self.own.unwrap_or_else(|| loopback(self.listen))
    }
}

/// How this machine itself reaches a listener.
pub fn loopback(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => std::net::Ipv4Addr::LOCALHOST.into(),
        ip if ip.is_unspecified() => std::net::Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Everything that a gateway signs with.
#[derive(Debug)]
pub struct GatewayKeys {
    pub voice: EdKey,
    pub identity: Authority<Identity>,
    pub endpoint: Authority<Endpoint>,
    /// Sent along in the handshake: a joiner knows only its fingerprint.
    pub endpoint_root: CertificateDer<'static>,
}

impl GatewayFolder {
    pub fn at(home: &Path, org: &OrgName) -> Self {
        Self { folder: home.join(org.as_str()).join("gateway") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Of a machine that joined: inside its scope.
    pub fn of_member(scope: &Scope) -> Self {
        Self { folder: scope.path("gateway") }
    }

    /// The scope of the gateway's own node: inside, where the org was founded, else around it.
    pub fn scope(&self) -> Scope {
        let inside = self.path("node");
        match self.folder.parent() {
            Some(around) if !inside.exists() && around.join("node.key").exists() => Scope { folder: around.to_owned() },
            _ => Scope { folder: inside },
        }
    }

    /// Nothing if another process holds it.
    pub fn lock(&self) -> Result<Option<Lock>, ScopeError> {
        Ok(Lock::take(&self.path("lock"))?)
    }

    pub fn about(&self) -> Result<GatewayFile, ScopeError> {
        let path = self.path("gateway.json");
        let missing = || ScopeError::Damaged { path: path.clone(), why: "it is missing".to_owned() };
        read_json(&path)?.ok_or_else(missing)
    }

    pub fn save_about(&self, about: &GatewayFile) -> Result<(), ScopeError> {
        write_json(&self.path("gateway.json"), about)
    }

    pub fn serving(&self) -> Result<Option<ServingFile>, ScopeError> {
        read_json(&self.path("serving.json"))
    }

    pub fn save_serving(&self, serving: &ServingFile) -> Result<(), ScopeError> {
        write_json(&self.path("serving.json"), serving)
    }

    pub fn forget_serving(&self) {
        let _ = std::fs::remove_file(self.path("serving.json"));
    }

    /// Writes what founding made.
    pub fn save_keys(&self, keys: &GatewayKeys, issuers: (&P256Key, &P256Key)) -> Result<(), ScopeError> {
        file::make_private_folder(&self.folder)?;
        file::write(&self.path("voice.key"), &keys.voice.seed()[..], Access::Private)?;
        self.save_issuer(Domain::Identity, issuers.0, &keys.identity.pem())?;
        self.save_issuer(Domain::Endpoint, issuers.1, &keys.endpoint.pem())?;
        let root = certificate::to_pem(std::slice::from_ref(&keys.endpoint_root));
        Ok(file::write(&self.path("endpoint-root.pem"), root.as_bytes(), Access::Readable)?)
    }

    fn save_issuer(&self, domain: Domain, key: &P256Key, pem: &str) -> Result<(), ScopeError> {
        let name = |ending: &str| self.path(&format!("{}-issuer.{ending}", domain.word()));
        file::write(&name("key"), key.to_pem().as_bytes(), Access::Private)?;
        Ok(file::write(&name("pem"), pem.as_bytes(), Access::Readable)?)
    }

    pub fn keys(&self) -> Result<GatewayKeys, ScopeError> {
        let voice_path = self.path("voice.key");
        let seed = file::read_secret(&voice_path)?;
        let short = || ScopeError::Damaged { path: voice_path.clone(), why: "not 32 bytes".to_owned() };
        let voice = EdKey::from_seed(seed.as_slice().try_into().map_err(|_| short())?);
        Ok(GatewayKeys {
            voice,
            identity: self.issuer()?,
            endpoint: self.issuer()?,
            endpoint_root: self.certificate("endpoint-root.pem")?,
        })
    }

    /// The key that would be used next in a domain, made on first use.
    pub fn spare(&self, domain: Domain) -> Result<P256Key, ScopeError> {
        let path = self.path(&format!("{}-issuer.spare.key", domain.word()));
        if !path.exists() {
            file::write(&path, random::p256()?.to_pem().as_bytes(), Access::Private)?;
        }
        read_key(&path)
    }

    fn issuer<D: InDomain>(&self) -> Result<Authority<D>, ScopeError> {
        let name = |ending: &str| format!("{}-issuer.{ending}", D::DOMAIN.word());
        let key = read_key(&self.path(&name("key")))?;
        let damaged = |why: String| ScopeError::Damaged { path: self.path(&name("pem")), why };
        Authority::load(self.certificate(&name("pem"))?, &key).map_err(|why| damaged(why.to_string()))
    }

    fn certificate(&self, name: &str) -> Result<CertificateDer<'static>, ScopeError> {
        let path = self.path(name);
        let pem = file::read(&path)?;
        let damaged = |why: String| ScopeError::Damaged { path: path.clone(), why };
        let chain = certificate::from_pem(&String::from_utf8_lossy(&pem)).map_err(|why| damaged(why.to_string()))?;
        chain.into_iter().next().ok_or_else(|| damaged("empty".to_owned()))
    }
}
