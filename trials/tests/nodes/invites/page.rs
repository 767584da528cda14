//! The page for newcomers, read as a browser would.

use trials::place::{Place, text};

/// Tags in their order, and the text between them. Enough for a page that we write ourselves.
fn tags(html: &str) -> Vec<(String, String)> {
    let parts = html.split('<').skip(1).filter_map(|part| part.split_once('>'));
    parts.map(|(tag, after)| (tag.to_owned(), after.to_owned())).collect()
}

#[test]
fn the_landing_page_is_whole_and_asks_the_browser_for_nothing() {
    let place = Place::founded(&["--signers", "2-of-3"]);
    let out = place.path("public").to_string_lossy().into_owned();
    let told = place.facts(&["landing", "--out", &out, "--contact", "Ask <Ann> & \"co\""]);
    let html = std::fs::read_to_string(place.path("public/index.html")).unwrap();
    let tags = tags(&html);
    let mut open = Vec::new();
    for (tag, _) in &tags {
        let name = tag.trim_start_matches('/').split(' ').next().unwrap_or_default();
        match tag {
            tag if tag.starts_with('!') || name == "meta" => {}
            tag if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "in {tag}"),
            _ => open.push(name),
        }
        for bad in ["script", "link", "img", "iframe", "object", "form", "base", "svg"] {
            assert_ne!(name, bad);
        }
        for bad in ["src=", "href=", "http:", "https:", "style=", "on"] {
            assert!(!tag.split(' ').skip(1).any(|word| word.starts_with(bad)), "{tag}");
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(!html.contains("url(") && !html.contains("@import"), "its style fetches nothing");
    let policy = tags.iter().find(|(tag, _)| tag.contains("Content-Security-Policy")).unwrap();
    assert!(policy.0.contains("default-src 'none'"), "{}", policy.0);
    let id = text(&place.facts(&["org", "list"])[0], "org_id");
    assert_eq!(text(&told, "org_id"), id);
    assert!(html.contains(&format!("<code>{id}</code>")));
    assert!(html.contains("2 of 3 operators must agree"));
    assert!(html.contains("Ask &lt;Ann&gt; &amp; &quot;co&quot;"));
    for words in
        ["freehold-node join", "--bundle", "freehold-node csr", "--old-key", "freehold-node leave", &place.address()]
    {
        assert!(html.contains(words), "{words}");
    }
}
