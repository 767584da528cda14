//! Which key on which token a URI names, and what is refused.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<TokenUri, BadUri> {
    text.parse()
}

#[test]
fn a_uri_names_one_key_of_one_token() {
    let text = "pkcs11:token=My%20token;serial=00AB;manufacturer=Ed%26Co;model=X1;object=ann;id=%01%fF;type=private\
                ?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/run/pin";
    let uri = parse(text).unwrap();
    assert_eq!(uri.to_string(), text);
    assert_eq!(uri.pin_source(), Some(Path::new("/run/pin")));
    let some = |text: &str| Some(text.to_owned());
    let wanted = Wanted {
        module: "/usr/lib/softhsm/libsofthsm2.so".into(),
        token: some("My token"),
        manufacturer: some("Ed&Co"),
        model: some("X1"),
        serial: some("00AB"),
        object: some("ann"),
        id: Some(Bytes(vec![1, 255])),
    };
    assert_eq!(*uri.wanted(), wanted);
    let json = serde_json::to_string(&uri).unwrap();
    assert_eq!(serde_json::from_str::<TokenUri>(&json).unwrap(), uri);
    let short = parse("pkcs11:?module-path=/m.so&pin-source=file:///run/pin").unwrap();
    assert_eq!(short.wanted().token, None);
    assert_eq!(short.pin_source(), Some(Path::new("/run/pin")));
}

#[test]
fn what_is_not_understood_is_refused() {
    let module = "?module-path=/m.so";
    let unknown = |name: &str| Err(BadUri::Unknown(name.to_owned()));
    let malformed = |piece: &str| Err(BadUri::Malformed(piece.to_owned()));
    let table = [
        (String::new(), Err(BadUri::NotPkcs11)),
        ("PKCS11:token=a".to_owned(), Err(BadUri::NotPkcs11)),
        ("pkcs11:".to_owned(), Err(BadUri::NoModule)),
        ("pkcs11:token=a".to_owned(), Err(BadUri::NoModule)),
        (format!("pkcs11:token=a;token=b{module}"), Err(BadUri::Twice("token".to_owned()))),
        (format!("pkcs11:token=a{module}&module-path=/n.so"), Err(BadUri::Twice("module-path".to_owned()))),
        (format!("pkcs11:x-vendor=1{module}"), unknown("x-vendor")),
        (format!("pkcs11:slot-id=1{module}"), unknown("slot-id")),
        (format!("pkcs11:library-version=3{module}"), unknown("library-version")),
        ("pkcs11:token=a?module-name=softhsm2".to_owned(), unknown("module-name")),
        (format!("pkcs11:token=a{module}&x-vendor=1"), unknown("x-vendor")),
        (format!("pkcs11:token=a{module}&pin-value=1234"), Err(BadUri::PinValue)),
        (format!("pkcs11:pin-value=1234{module}"), Err(BadUri::PinValue)),
        (format!("pkcs11:token=a{module}&pin-source=/run/pin"), Err(BadUri::PinSource)),
        (format!("pkcs11:token=a{module}&pin-source=|askpin"), Err(BadUri::PinSource)),
        (format!("pkcs11:token=a{module}&pin-source=file:pin"), Err(BadUri::NotAbsolute("pin-source"))),
        ("pkcs11:token=a?module-path=m.so".to_owned(), Err(BadUri::NotAbsolute("module-path"))),
        (format!("pkcs11:type=public{module}"), Err(BadUri::Type)),
        (format!("pkcs11:token{module}"), malformed("token")),
        (format!("pkcs11:token={module}"), malformed("token=")),
        (format!("pkcs11:=a{module}"), malformed("=a")),
        (format!("pkcs11:token=a;{module}"), malformed("")),
        (format!("pkcs11:token=%4{module}"), malformed("token=%4")),
        (format!("pkcs11:token=%zz{module}"), malformed("token=%zz")),
        (format!("pkcs11:token=%ff{module}"), malformed("token=%ff")),
        (format!("pkcs11:token=a%00{module}"), malformed("token=a%00")),
        (format!("pkcs11:token=a b{module}"), malformed("token=a b")),
        (format!("pkcs11:token=ä{module}"), malformed("token=ä")),
        (format!("pkcs11:token=a{module}#part"), malformed("module-path=/m.so#part")),
        (format!("pkcs11:token={}{module}", "a".repeat(3_000)), Err(BadUri::TooLong)),
        (format!("pkcs11:token={}{module}", "a".repeat(600)), malformed(&format!("token={}", "a".repeat(34)))),
    ];
    for (text, expected) in table {
        assert_eq!(parse(&text).map(|uri| uri.to_string()), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser_and_what_it_takes_prints_as_it_was(
        pieces in proptest::collection::vec("[a-z%=;&?:/0-9A-F-]{0,12}|token=|;object=|;id=%[0-9a-f]{2}|\\?module-path=/m|\\PC", 0..8)
    ) {
        let text = format!("pkcs11:{}", pieces.concat());
        if let Ok(uri) = parse(&text) {
            prop_assert_eq!(uri.to_string(), text);
            prop_assert!(uri.wanted().module.is_absolute());
        }
    }
}

#[test]
fn a_module_that_others_can_change_is_not_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("module.so");
    std::fs::write(&path, b"").unwrap();
    let uri = parse(&format!("pkcs11:?module-path={}", path.display())).unwrap();
    let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o644);
    assert_eq!(uri.check_module(), Ok(()));
    set(0o666);
    assert!(uri.check_module().unwrap_err().contains("can be changed by other users"));
    std::fs::remove_file(&path).unwrap();
    assert!(uri.check_module().is_err());
}
