//! Where a static tree lies: in a folder, or on a plain web server. Whoever keeps it is believed in nothing, so nothing
//! is asked of the way there: what is in it is signed, or sealed to this node.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::timeout;
use wire::http;
use wire::tree::{BadTree, MAX_FILE};

const TIME: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    Folder(PathBuf),
    /// `http://HOST:PORT/PATH`, without a slash at its end.
    Web(Uri),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSource {
    #[error(
        "https is not spoken here: it would need a list of public roots, which this program does not trust for          anything. What is in a tree is signed or sealed, so http:// does as well, or a folder"
    )]
    Https,
    #[error("`{0}` is neither a folder nor http://HOST:PORT/PATH")]
    Unknown(String),
}

#[derive(Debug, thiserror::Error)]
pub enum NoFile {
    #[error("cannot read `{}`", path.display())]
    Disk {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("`{}` is not a plain file", .0.display())]
    Odd(PathBuf),
    #[error("`{0}` is too large for a file of a tree, or was cut off")]
    TooLarge(String),
    #[error("cannot reach {at}")]
    Unreachable {
        at: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{at} did not answer in time")]
    Silent { at: String },
    #[error("{at} speaks no HTTP that can be read")]
    NoHttp {
        at: String,
        #[source]
        source: hyper::Error,
    },
    #[error("{at} sends elsewhere ({status}), which is not followed: give the address where the tree is")]
    Elsewhere { at: String, status: StatusCode },
    #[error("{at} answers {status}")]
    Status { at: String, status: StatusCode },
    #[error("reading was broken off")]
    BrokenOff,
}

/// Why a tree is not taken.
#[derive(Debug, thiserror::Error)]
#[error("the tree at {at} is not taken")]
pub struct NotTaken {
    pub at: String,
    #[source]
    pub source: Box<BadTree<NoFile>>,
}

impl NotTaken {
    /// It was read, and what it says does not hold.
    pub fn is_lie(&self) -> bool {
        !matches!(*self.source, BadTree::Get(_) | BadTree::NoTree)
    }
}

impl FromStr for Source {
    type Err = BadSource;
    fn from_str(text: &str) -> Result<Self, BadSource> {
        let unknown = || BadSource::Unknown(text.to_owned());
        let Some((scheme, _)) = text.split_once("://") else {
            return if text.is_empty() { Err(unknown()) } else { Ok(Self::Folder(text.into())) };
        };
        match scheme.to_ascii_lowercase().as_str() {
            "https" => return Err(BadSource::Https),
            "http" => {}
            _ => return Err(unknown()),
        }
        let uri: Uri = text.trim_end_matches('/').parse().map_err(|_| unknown())?;
        let plain = uri.scheme().is_some()
            && uri.query().is_none()
            && uri.authority().is_some_and(|at| !at.as_str().contains('@'));
        if plain { Ok(Self::Web(uri)) } else { Err(unknown()) }
    }
}

impl TryFrom<String> for Source {
    type Error = BadSource;
    fn try_from(text: String) -> Result<Self, BadSource> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.to_string()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Web(uri) => write!(f, "{}", uri.to_string().trim_end_matches('/')),
        }
    }
}

impl Source {
    /// As another process on this machine understands it.
    pub fn absolute(self) -> std::io::Result<Self> {
        match self {
            Self::Folder(path) => std::path::absolute(path).map(Self::Folder),
            web @ Self::Web(_) => Ok(web),
        }
    }

    /// A file by its path in the tree; nothing if it is not there.
    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, NoFile> {
        match self {
            Self::Folder(folder) => from_disk(&folder.join(path)),
            Self::Web(uri) => {
                let at = format!("{self}/{path}");
                let fetched = timeout(TIME, from_web(uri, path, &at)).await;
                fetched.unwrap_or(Err(NoFile::Silent { at }))
            }
        }
    }
}

/// No link is followed: a stick might point into this machine.
fn from_disk(path: &Path) -> Result<Option<Vec<u8>>, NoFile> {
    let failed = |source| NoFile::Disk { path: path.to_owned(), source };
    match std::fs::symlink_metadata(path) {
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(failed(why)),
        Ok(meta) if !meta.is_file() => return Err(NoFile::Odd(path.to_owned())),
        Ok(_) => {}
    }
    let (mut bytes, limit) = (Vec::new(), u64::try_from(MAX_FILE).unwrap_or(u64::MAX));
    std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() > MAX_FILE { Err(NoFile::TooLarge(path.display().to_string())) } else { Ok(Some(bytes)) }
}

async fn from_web(uri: &Uri, path: &str, at: &str) -> Result<Option<Vec<u8>>, NoFile> {
    let at = || at.to_owned();
    let no_http = |source| NoFile::NoHttp { at: at(), source };
    let host = uri.host().unwrap_or_default();
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.map_err(|source| NoFile::Unreachable { at: at(), source })?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(no_http)?;
    let running = tokio::spawn(connection);
    let request = hyper::Request::get(format!("{}/{path}", uri.path().trim_end_matches('/')))
        .header(HOST, uri.authority().map_or(host, |authority| authority.as_str()))
        .body(Empty::<Bytes>::new())
        .map_err(|_| NoFile::BrokenOff)?;
    let response = sender.send_request(request).await.map_err(no_http)?;
    let found = match response.status() {
        StatusCode::OK => {
            let body = http::read(response.into_body(), MAX_FILE).await;
            Ok(Some(body.map_err(|_| NoFile::TooLarge(at()))?.to_vec()))
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
        status if status.is_redirection() => Err(NoFile::Elsewhere { at: at(), status }),
        status => Err(NoFile::Status { at: at(), status }),
    };
    running.abort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_folder_or_a_plain_web_address() {
        let told = |text: &str| text.parse::<Source>().map(|source| source.to_string());
        for good in ["/media/stick/tree", "tree", "http://files.example:8080/org/tree", "http://[::1]:80/tree"] {
            assert_eq!(told(good).as_deref(), Ok(good));
        }
        assert_eq!(told("http://files.example/tree/").as_deref(), Ok("http://files.example/tree"));
        assert_eq!(told("http://files.example").as_deref(), Ok("http://files.example"));
        assert_eq!(told("HTTPS://files.example/tree"), Err(BadSource::Https));
        for bad in ["", "ftp://files.example/tree", "http://", "http://a@files.example/x", "http://files.example/x?y"] {
            assert_eq!(told(bad), Err(BadSource::Unknown(bad.to_owned())), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_folder_gives_plain_files_of_bounded_size_alone() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::Folder(folder.path().to_owned());
        std::fs::write(folder.path().join("plain"), "hello").unwrap();
        std::os::unix::fs::symlink("plain", folder.path().join("link")).unwrap();
        let large = std::fs::File::create(folder.path().join("large")).unwrap();
        large.set_len(MAX_FILE as u64 + 1).unwrap();
        assert_eq!(source.get("plain").await.unwrap().unwrap(), b"hello");
        assert!(source.get("absent").await.unwrap().is_none());
        assert!(matches!(source.get("link").await, Err(NoFile::Odd(_))));
        assert!(matches!(source.get("large").await, Err(NoFile::TooLarge(_))));
    }
}
