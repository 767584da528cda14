//! A gateway's folder: its keys, its certificates, where it answers. The operators' keys are never here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ground::file::{self, FileAccess, Lock};
use ground::random;
use identity::authority::Authority;
use identity::bundle::{Domain, Endpoint, Identity, InDomain};
use identity::certificate;
use identity::id::{Digest, KeyId, OrgId};
use identity::key::{EdKey, P256Key, PublicKey, Sign as _};
use identity::principal::{Address, NodeName, OrgName};
use identity::time::Timestamp;
use member::store::scope::{Scope, ScopeError, Unsound, read_json, read_key, write_json};
use org::gateway::GatewayGrant;
use pki_types::CertificateDer;
use serde::{Deserialize, Serialize};

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

/// What lies there to issue with in one domain.
#[derive(Debug)]
pub struct IssuerFiles {
    pub keys: Vec<P256Key>,
    pub certificates: Vec<CertificateDer<'static>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawnFile {
    schema: u32,
    head: Digest,
    at: Timestamp,
}

const KEY: &str = ".key";
const PEM: &str = ".pem";
const SPARE: &str = ".spare.key";
/// For which head the spare key was drawn, and when.
const DRAWN: &str = ".spare.json";
/// No backup has it: an older copy must not be able to speak in the voice that took its place.
const SPARE_VOICE: &str = "voice.spare.key";
/// Certificates of the same key under other roots, handed over together with the first.
const MORE: &str = "-more.pem";

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

    /// Has the machine ever been given what a gateway needs?
    pub fn was_granted(&self) -> bool {
        self.path("gateway.json").exists()
    }

    /// Nothing if another process holds it.
    pub fn lock(&self) -> Result<Option<Lock>, ScopeError> {
        Ok(Lock::take(&self.path("lock"))?)
    }

    pub fn about(&self) -> Result<GatewayFile, ScopeError> {
        let path = self.path("gateway.json");
        let missing = || ScopeError::Damaged { path: path.clone(), why: Unsound::Missing };
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
    pub fn save_keys(&self, keys: &GatewayKeys, identity: &P256Key, endpoint: &P256Key) -> Result<(), ScopeError> {
        file::make_private_folder(&self.folder)?;
        file::write(&self.path("voice.key"), &keys.voice.seed()[..], FileAccess::Private)?;
        self.save_issuer(Domain::Identity, identity, &keys.identity.pem())?;
        self.save_issuer(Domain::Endpoint, endpoint, &keys.endpoint.pem())?;
        let root = certificate::to_pem(std::slice::from_ref(&keys.endpoint_root));
        Ok(file::write(&self.path("endpoint-root.pem"), root.as_bytes(), FileAccess::Readable)?)
    }

    fn save_issuer(&self, domain: Domain, key: &P256Key, pem: &str) -> Result<(), ScopeError> {
        file::write(&self.issuer_path(domain, KEY), key.to_pem().as_bytes(), FileAccess::Private)?;
        Ok(file::write(&self.issuer_path(domain, PEM), pem.as_bytes(), FileAccess::Readable)?)
    }

    pub fn voice(&self) -> Result<EdKey, ScopeError> {
        read_voice(&self.path("voice.key"))
    }

    /// The voice that would be used next, if one was drawn.
    pub fn next_voice(&self) -> Result<Option<EdKey>, ScopeError> {
        let path = self.path(SPARE_VOICE);
        path.exists().then(|| read_voice(&path)).transpose()
    }

    /// The same, made on first use. The caller has seen to it that no other draws one.
    pub fn spare_voice(&self) -> Result<EdKey, ScopeError> {
        if let Some(spare) = self.next_voice()? {
            return Ok(spare);
        }
        let drawn = random::ed25519()?;
        file::write(&self.path(SPARE_VOICE), &drawn.seed()[..], FileAccess::Private)?;
        Ok(drawn)
    }

    /// Makes the files say which voice is in use, if that is the spare one: whenever this ends, it is here.
    pub fn settle_voice(&self, used: PublicKey) -> Result<(), ScopeError> {
        let Some(spare) = self.next_voice()?.filter(|spare| spare.public() == used) else { return Ok(()) };
        if self.voice()?.public() != used {
            file::write(&self.path("voice.key"), &spare.seed()[..], FileAccess::Private)?;
        }
        let path = self.path(SPARE_VOICE);
        // It lives on under the other name.
        std::fs::remove_file(&path).map_err(|why| damaged(&path, why))?;
        Ok(file::sync_folder(&self.folder)?)
    }

    pub fn keys(&self) -> Result<GatewayKeys, ScopeError> {
        Ok(GatewayKeys {
            voice: self.voice()?,
            identity: self.issuer()?,
            endpoint: self.issuer()?,
            endpoint_root: self.certificate("endpoint-root.pem")?,
        })
    }

    fn issuer_path(&self, domain: Domain, ending: &str) -> PathBuf {
        self.path(&format!("{}-issuer{ending}", domain.word()))
    }

    /// The key that would be used next in a domain, made on first use. The caller has seen to it that no other draws one.
    pub fn spare(&self, domain: Domain) -> Result<P256Key, ScopeError> {
        let path = self.issuer_path(domain, SPARE);
        if !path.exists() {
            file::write(&path, random::p256()?.to_pem().as_bytes(), FileAccess::Private)?;
        }
        read_key(&path)
    }

    /// Draws another spare key, if this one was not drawn for the same head; says when that was. It is on the disk, and the
    /// former one wiped, before anybody is told. The caller has seen to it that the former one is not in use.
    pub fn draw_spare(&self, domain: Domain, head: Digest, now: Timestamp) -> Result<Timestamp, ScopeError> {
        let (spare, mark) = (self.issuer_path(domain, SPARE), self.issuer_path(domain, DRAWN));
        let drawn: Option<DrawnFile> = read_json(&mark)?;
        if let Some(drawn) = drawn.filter(|drawn| drawn.head == head && spare.exists()) {
            return Ok(drawn.at);
        }
        file::wipe(&spare)?;
        self.spare(domain)?;
        write_json(&mark, &DrawnFile { schema: 1, head, at: now })?;
        Ok(now)
    }

    /// The issuing keys of one domain that are here, the one in use first, and every certificate of one that was handed
    /// over as a file.
    pub fn issuing(&self, domain: Domain) -> Result<IssuerFiles, ScopeError> {
        let mut keys = vec![read_key(&self.issuer_path(domain, KEY))?];
        let spare = self.issuer_path(domain, SPARE);
        if spare.exists() {
            keys.push(read_key(&spare)?);
        }
        let mut all = certificates(&self.issuer_path(domain, PEM))?;
        let more = self.issuer_path(domain, MORE);
        if more.exists() {
            all.extend(certificates(&more)?);
        }
        Ok(IssuerFiles { keys, certificates: all })
    }

    /// Takes certificates of the keys in use, that under the root in use first. What was here and is still good stays beside
    /// them: the operators may not know of it. They are shown from the next start on.
    pub fn take(&self, grant: &GatewayGrant, now: Timestamp) -> Result<(), ScopeError> {
        for (domain, first, more) in [
            (Domain::Identity, &grant.identity_issuer, &grant.identity_more),
            (Domain::Endpoint, &grant.endpoint_issuer, &grant.endpoint_more),
        ] {
            let first = CertificateDer::from(first.0.clone());
            let mut beside: Vec<_> = more.iter().map(|der| CertificateDer::from(der.0.clone())).collect();
            let path = self.issuer_path(domain, KEY);
            let key = id_of(&read_key(&path)?, &path)?;
            let before =
                if self.issuer_path(domain, PEM).exists() { self.issuing(domain)?.certificates } else { Vec::new() };
            let good = |der: &CertificateDer<'static>| {
                certificate::read(der).is_ok_and(|read| read.key == key && read.validity.not_after > now)
            };
            let kept: Vec<_> =
                before.into_iter().filter(|der| *der != first && !beside.contains(der) && good(der)).collect();
            beside.extend(kept);
            write_pem(&self.issuer_path(domain, PEM), std::slice::from_ref(&first))?;
            let more = self.issuer_path(domain, MORE);
            if beside.is_empty() {
                let _ = std::fs::remove_file(more);
            } else {
                write_pem(&more, &beside)?;
            }
        }
        write_pem(&self.path("endpoint-root.pem"), &[CertificateDer::from(grant.endpoint_root.0.clone())])
    }

    /// Makes the files say which key is in use, if that is the spare one: whenever this ends, the key that is in use is
    /// here, with a certificate. True if something was done.
    pub fn settle(&self, domain: Domain, used: KeyId, own: &[CertificateDer<'static>]) -> Result<bool, ScopeError> {
        let (key, pem, spare) =
            (self.issuer_path(domain, KEY), self.issuer_path(domain, PEM), self.issuer_path(domain, SPARE));
        if !spare.exists() {
            return Ok(false);
        }
        let next = read_key(&spare)?;
        if id_of(&next, &spare)? != used {
            return Ok(false);
        }
        if id_of(&read_key(&key)?, &key)? != used {
            let both = [own, &certificates(&pem)?].concat();
            file::write(&pem, certificate::to_pem(&both).as_bytes(), FileAccess::Readable)?;
            file::write(&key, next.to_pem().as_bytes(), FileAccess::Private)?;
        }
        file::write(&pem, certificate::to_pem(own).as_bytes(), FileAccess::Readable)?;
        // It lives on under the other name.
        std::fs::remove_file(&spare).map_err(|why| damaged(&spare, why))?;
        file::sync_folder(&self.folder)?;
        Ok(true)
    }

    fn issuer<D: InDomain>(&self) -> Result<Authority<D>, ScopeError> {
        let (key, pem) = (self.issuer_path(D::DOMAIN, KEY), self.issuer_path(D::DOMAIN, PEM));
        let (id, key) = (id_of(&read_key(&key)?, &key)?, read_key(&key)?);
        let all = certificates(&pem)?;
        let own = all.iter().find(|der| certificate::read(der).is_ok_and(|read| read.key == id));
        let own = own.or(all.first()).ok_or_else(|| damaged(&pem, Unsound::Empty))?;
        Authority::load(own.clone(), &key).map_err(|why| damaged(&pem, why))
    }

    fn certificate(&self, name: &str) -> Result<CertificateDer<'static>, ScopeError> {
        let path = self.path(name);
        certificates(&path)?.into_iter().next().ok_or_else(|| damaged(&path, Unsound::Empty))
    }
}

fn read_voice(path: &Path) -> Result<EdKey, ScopeError> {
    let seed = file::read_secret(path)?;
    Ok(EdKey::from_seed(seed.as_slice().try_into().map_err(|_| damaged(path, Unsound::NotAKey))?))
}

fn write_pem(path: &Path, certificates: &[CertificateDer<'static>]) -> Result<(), ScopeError> {
    Ok(file::write(path, certificate::to_pem(certificates).as_bytes(), FileAccess::Readable)?)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ScopeError> {
    let pem = file::read(path)?;
    certificate::from_pem(&String::from_utf8_lossy(&pem)).map_err(|why| damaged(path, why))
}

fn damaged(path: &Path, why: impl Into<Unsound>) -> ScopeError {
    ScopeError::Damaged { path: path.to_owned(), why: why.into() }
}

fn id_of(key: &P256Key, path: &Path) -> Result<KeyId, ScopeError> {
    certificate::key_id(key.public()).map_err(|why| damaged(path, why))
}
