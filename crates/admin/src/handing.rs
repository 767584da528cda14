//! In which form an invite is handed to whoever runs the machine that joins.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ground::file::{self, FileAccess};
use operate::invite::line::JoinLine;
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use serde::Serialize;
use terminal::failure::Failure;

use crate::home::During;
use zeroize::Zeroizing;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// One line to paste into a root shell
    Line,
    /// One line to paste into an administrator's PowerShell
    Powershell,
    /// User data for cloud-init
    CloudInit,
    /// Lines NAME=value, for a unit or a container
    Env,
    /// The code alone, into the file of --out
    File,
    /// The code as a picture for a camera
    Qr,
}

#[derive(Debug, Args)]
pub struct Handing {
    /// In which form [default: line; file for a key]
    #[arg(long, value_name = "FORM")]
    format: Option<Format>,
    /// Write it into a new file that only you can read
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
pub struct Handed {
    /// Always there, whatever the form.
    line: String,
    format: Format,
    /// In the form that was asked for; absent if it is in the file.
    text: Option<String>,
    file: Option<String>,
    /// It brings the agent along.
    installs: bool,
    /// There is an agent to bring.
    #[serde(skip)]
    released: bool,
    /// The only name that the machine can take.
    #[serde(skip)]
    name: Option<String>,
}

const OUTSIDE: &str = "freehold-node must be there already: no gateway has an address that a plain download reaches. If a web \
                       server with a certificate of its own answers for one (wss://HOST), name its root: freehold trust \
                       publish endpoint --outside FILE --for HOST";

impl Handing {
    /// For a key, which is baked into an image: its file, unless another form was asked for.
    #[must_use]
    pub fn into_file(self) -> Self {
        Self { format: self.format.or(Some(Format::File)), ..self }
    }

    fn format(&self) -> Format {
        self.format.unwrap_or(Format::Line)
    }

    /// Before anything is signed.
    pub fn check(&self, has_kit: bool, doing: &str) -> Result<(), Failure> {
        match &self.out {
            _ if self.format() == Format::Powershell && !has_kit => {
                Err(Failure::failed(doing, "the org has no release that a line could install")
                    .hint("add agents first: freehold release add FILE..."))
            }
            None if self.format() == Format::File => {
                Err(Failure::usage(doing, "the form `file` needs a file").hint("say which: --out FILE"))
            }
            Some(out) if out.exists() => Err(Failure::usage(doing, format!("`{}` is there already", out.display()))
                .hint("move it away, or choose another name: --out FILE")),
            _ => Ok(()),
        }
    }

    pub fn hand(&self, line: &JoinLine<'_>, doing: &str) -> Result<Handed, Failure> {
        let text = self.text(line, doing)?;
        if let Some(out) = &self.out {
            let text = Zeroizing::new(format!("{}\n", text.trim_end_matches('\n')));
            file::write_new(out, text.as_bytes(), FileAccess::Private).during(doing)?;
        }
        Ok(Handed {
            line: line.shell().to_string(),
            format: self.format(),
            text: self.out.is_none().then(|| text.to_string()),
            file: self.out.as_ref().map(|out| out.display().to_string()),
            installs: line.installs(),
            released: line.kit.is_some(),
            name: line.name.map(str::to_owned),
        })
    }

    fn text(&self, line: &JoinLine<'_>, doing: &str) -> Result<Zeroizing<String>, Failure> {
        match self.format() {
            Format::Line => Ok(line.shell()),
            Format::Powershell => line.powershell().ok_or_else(|| {
                Failure::failed(doing, "no gateway has an address that a plain download reaches").hint(OUTSIDE)
            }),
            Format::CloudInit => Ok(line.cloud_init()),
            Format::Env => Ok(line.env()),
            Format::File => Ok(Zeroizing::new(line.code.to_owned())),
            Format::Qr => draw(line.code).ok_or_else(|| {
                Failure::failed(doing, "the code is too long for a picture").hint("use another form: --format line")
            }),
        }
    }
}

/// For a dark terminal: what is light in the picture is drawn.
fn draw(code: &str) -> Option<Zeroizing<String>> {
    let picture = QrCode::with_error_correction_level(code, EcLevel::L).ok()?;
    let drawn = picture.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build();
    Some(Zeroizing::new(drawn))
}

impl Handed {
    /// For what lies in a file alone: the line names the file.
    #[must_use]
    pub fn without_secret(mut self) -> Self {
        if let Some(file) = &self.file {
            self.line = format!("freehold-node join --invite-file {file}");
        }
        self
    }

    /// `before` says what was made, `at` where and when it is used, `after` what is left to do. A document that other
    /// programs read stands alone on stdout.
    pub fn tell(&self, before: &str, at: &str, after: Option<&str>) {
        let hint = match (self.installs, self.released) {
            (true, _) => None,
            (false, true) => Some(OUTSIDE),
            (false, false) => {
                Some("freehold-node must be there already. To have the line install it: freehold release add FILE...")
            }
        };
        let after = [hint, after];
        let after = after.into_iter().flatten().map(|words| format!("\n{words}\n")).collect::<Vec<_>>().concat();
        match (&self.text, self.format) {
            (Some(text), Format::Line | Format::Powershell) => println!("{before}\n{at}:\n\n  {text}\n{after}"),
            (Some(text), Format::Qr) => println!("{before}\n{at}:\n\n{text}\n{after}"),
            (Some(text), Format::CloudInit | Format::Env | Format::File) => {
                eprintln!("{before}\n{at}:\n{after}");
                println!("{}", text.trim_end());
            }
            (None, _) => {
                let how = use_file(self.format, self.file.as_deref().unwrap_or_default(), self.name.as_deref());
                println!("{before}\n{at}: {how}\n{after}");
            }
        }
    }
}

/// What to do with a file that holds it.
fn use_file(format: Format, file: &str, name: Option<&str>) -> String {
    let what = format!("what is in `{file}`");
    match format {
        Format::Line => format!("{what}, in a root shell"),
        Format::Powershell => format!("{what}, in an administrator's PowerShell"),
        Format::CloudInit => format!("{what}, as its user data"),
        Format::Env => format!("{what}, as the environment of `freehold-node join`"),
        Format::Qr => format!("{what}, before its camera"),
        Format::File => {
            let name = name.map(|name| format!(" --name {name}")).unwrap_or_default();
            let there = file.rsplit('/').next().unwrap_or(file);
            format!("bring `{file}` there, then\n\n  freehold-node join{name} < {there}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_code_says_how_to_join_with_it() {
        let told = |name| use_file(Format::File, "/home/ann/code", name);
        assert_eq!(told(None), "bring `/home/ann/code` there, then\n\n  freehold-node join < code");
        assert!(told(Some("web-1")).ends_with("\n  freehold-node join --name web-1 < code"));
        assert_eq!(use_file(Format::Line, "line", None), "what is in `line`, in a root shell");
    }
}
