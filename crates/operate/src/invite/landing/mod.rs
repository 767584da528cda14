//! A page that tells a newcomer what to do: one file, no script, nothing from elsewhere.

use identity::id::{Digest, sha256};
use identity::principal::Address;
use identity::text::base64;
use identity::time::Timestamp;
use wire::known::Known;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// What the page says of one org. All of it is public.
#[derive(Debug, Clone)]
pub struct Landing {
    pub org: String,
    pub id: String,
    pub signers: Vec<(String, String)>,
    pub threshold: usize,
    pub identity_root: String,
    pub endpoint_root: String,
    pub gateways: Vec<String>,
    /// How to reach the operators, in their words.
    pub contact: Option<String>,
    pub made_at: Timestamp,
}

impl Landing {
    pub fn of(known: &Known, gateways: &[Address], contact: Option<String>, made_at: Timestamp) -> Self {
        let (record, quorum) = (&known.founding.record, &known.signers.quorum);
        let signers = quorum.signers().iter();
        Self {
            org: record.name.to_string(),
            id: known.org().to_string(),
            signers: signers.map(|signer| (signer.name.to_string(), signer.key.to_string())).collect(),
            threshold: quorum.threshold(),
            identity_root: Digest::of(&record.identity_root.0).to_string(),
            endpoint_root: known.founding.endpoint_fingerprint().to_string(),
            gateways: gateways.iter().map(ToString::to_string).collect(),
            contact,
            made_at,
        }
    }

    /// The page. Browsers are told to run nothing and to fetch nothing; its one style is named by its digest.
    pub fn html(&self) -> String {
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
            base64(&sha256(STYLE.as_bytes()))
        );
        let signers = self
            .signers
            .iter()
            .map(|(name, key)| format!("<li><b>{}</b><code>{}</code></li>", escaped(name), escaped(key)));
        let gateways = self.gateways.iter().map(|gateway| format!("<code>{}</code>", escaped(gateway)));
        let gateways = gateways.collect::<Vec<_>>().join(" ");
        let contact = match &self.contact {
            Some(contact) => format!("<p class=\"contact\">{}</p>", escaped(contact)),
            None => "<p>Ask the person who sent you here: an operator makes an invite for you.</p>".to_owned(),
        };
        let all = self.signers.len();
        let agree = match (self.threshold, all) {
            (1, 1) => "One operator decides".to_owned(),
            (k, n) if k == n => format!("All {n} operators must agree on every decision"),
            (k, n) => format!("{k} of {n} operators must agree on every decision"),
        };
        let values = [
            ("@POLICY@", policy.as_str()),
            ("@STYLE@", STYLE),
            ("@ORG@", &escaped(&self.org)),
            ("@ID@", &escaped(&self.id)),
            ("@AGREE@", &agree),
            ("@SIGNERS@", &signers.collect::<String>()),
            ("@IDENTITY@", &escaped(&self.identity_root)),
            ("@ENDPOINT@", &escaped(&self.endpoint_root)),
            ("@GATEWAYS@", &gateways),
            ("@CONTACT@", &contact),
            ("@MADE@", &escaped(&self.made_at.to_string())),
        ];
        fill(PAGE, &values)
    }
}

/// Each mark once, from left to right: what is filled in is not looked at again.
fn fill(page: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(page.len() * 2);
    let mut rest = page;
    while let Some(at) = rest.find('@') {
        let (before, here) = rest.split_at(at);
        out.push_str(before);
        let found = values.iter().find(|(mark, _)| here.starts_with(mark)).copied();
        let (mark, value) = found.unwrap_or(("@", "@"));
        out.push_str(value);
        rest = here.get(mark.len()..).unwrap_or_default();
    }
    out + rest
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(contact: &str) -> String {
        let landing = Landing {
            org: "harbor".to_owned(),
            id: "ab".repeat(32),
            signers: vec![("ann".to_owned(), "ed25519:x".to_owned())],
            threshold: 1,
            identity_root: "cd".repeat(32),
            endpoint_root: "ef".repeat(32),
            gateways: vec!["gw.example:7443".to_owned()],
            contact: Some(contact.to_owned()),
            made_at: Timestamp::from_unix(1_800_000_000),
        };
        landing.html()
    }

    #[test]
    fn every_mark_is_filled_and_nothing_in_it_is_html() {
        let told = page("<script>@ORG@</script> \"ann@harbor.example\"");
        for mark in ["@POLICY@", "@STYLE@", "@ID@", "@SIGNERS@", "@GATEWAYS@", "@CONTACT@", "@MADE@"] {
            assert!(!told.contains(mark), "{mark}");
        }
        assert!(told.contains("&lt;script&gt;@ORG@&lt;/script&gt; &quot;ann@harbor.example&quot;"), "{told}");
        assert!(!told.contains("<script"));
    }

    #[test]
    fn the_policy_names_the_style_that_is_there() {
        let told = page("x");
        let style = told.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
        assert!(told.contains(&format!("style-src 'sha256-{}'", base64(&sha256(style.as_bytes())))));
        assert_eq!(told.matches("<style").count(), 1);
        assert!(!told.contains("style="), "no style but the one that is named");
    }
}
