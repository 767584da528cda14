//! What a doctor finds: a line for each thing looked at, and the cure where it is not fine. Looks only, changes nothing.

use serde::Serialize;

use crate::failure::Failure;
use crate::show::show;
use crate::typed::repeated;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Ok,
    /// Nothing is broken yet.
    Soon,
    Wrong,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Soon => "soon",
            Self::Wrong => "WRONG",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub mark: Mark,
    pub subject: &'static str,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { mark: Mark::Ok, subject, found: found.into(), cure: None }
    }

    pub fn soon(subject: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { mark: Mark::Soon, subject, found: found.into(), cure: Some(repeated(&cure.into())) }
    }

    pub fn wrong(subject: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { mark: Mark::Wrong, subject, found: found.into(), cure: Some(repeated(&cure.into())) }
    }

    fn in_words(&self) -> String {
        // Whatever a file or a gateway says stays on its line.
        let line = format!("{:<5}  {:<12} {}", self.mark.word(), self.subject, one_line(&self.found));
        match &self.cure {
            Some(cure) => format!("{line}\n       {:<12} cure: {}", "", one_line(cure)),
            None => line,
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// All that was found of one org.
#[derive(Debug, Serialize)]
pub struct Patient {
    pub name: String,
    pub findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Told<'a> {
    fine: bool,
    orgs: &'a [Patient],
}

/// Prints what was found. Whatever is wrong ends the command with exit code 1.
pub fn tell(json: bool, patients: &[Patient]) -> Result<(), Failure> {
    let findings = || patients.iter().flat_map(|patient| &patient.findings);
    let wrong = findings().filter(|finding| finding.mark == Mark::Wrong).count();
    show(json, &Told { fine: wrong == 0, orgs: patients }, || {
        let lines = |patient: &Patient| {
            let findings = patient.findings.iter().map(Finding::in_words).collect::<Vec<_>>().join("\n");
            format!("{}\n{findings}", one_line(&patient.name))
        };
        patients.iter().map(lines).collect::<Vec<_>>().join("\n\n")
    });
    if wrong == 0 {
        return Ok(());
    }
    let why = format!("{wrong} of {} things looked at are wrong", findings().count());
    Err(Failure::failed("not all is well", why).hint("what was found says how to cure it"))
}
