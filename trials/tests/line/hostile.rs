//! A network, or a gateway, that changes what the line names: each change is refused before anything of it runs.

use std::io::{Read as _, Write as _};

use trials::network::shelf::{Credential, Shelf, Way};
use trials::place::{ended, stderr, stdout, succeeded};
use trials::port::Nobody;

use super::{Host, Mirror, marking, script, write_program};

/// The mark of a program that ran.
fn ran(host: &Host) -> bool {
    host.path("mark").exists()
}

fn mirror(host: &Host) -> Mirror {
    Mirror::of(&marking(&host.path("mark")))
}

/// What somebody would rather have run here.
fn theirs(host: &Host) -> Vec<u8> {
    [&marking(&host.path("mark"))[..], b"# theirs\n"].concat()
}

/// Nothing ran, nothing is installed, nothing is left that could be.
fn refused(host: &Host, mirror: &Mirror, exit: i32, why: &str) {
    let told = mirror.run(host, &[], "code");
    ended(&told, exit, why);
    assert!(stderr(&told).contains("\nhint: "), "{}", stderr(&told));
    assert!(!ran(host), "it ran: {}{}", stdout(&told), stderr(&told));
    assert!(!host.agent().exists());
}

#[test]
fn what_is_as_the_line_says_runs() {
    // The other side of every refusal here: the mark is really left, if nothing is wrong.
    let host = Host::new();
    let mirror = mirror(&host);
    succeeded(&mirror.run(&host, &[], "code"));
    assert_eq!(std::fs::read_to_string(host.path("mark")).unwrap(), "--version\njoin\n");
}

#[test]
fn a_swapped_root_list_or_agent_is_refused() {
    for (which, name) in [(0, "the org's root"), (1, "the list of agents"), (2, "the agent")] {
        let host = Host::new();
        let mirror = mirror(&host);
        let digest = [&mirror.root, &mirror.list, &mirror.agent][which];
        let other = match which {
            0 => Credential::make().root_pem.into_bytes(),
            1 => format!("freehold-agents 1\nlinux x86_64 {} 9 9\n", mirror.shelf.put(&theirs(&host), Way::AsItIs))
                .into(),
            _ => theirs(&host),
        };
        mirror.shelf.give(digest, Way::Instead(other));
        refused(&host, &mirror, 3, &format!("{name} is not what the line names"));
    }
}

#[test]
fn an_agent_of_the_right_length_and_one_wrong_bit_is_refused() {
    let host = Host::new();
    let mirror = mirror(&host);
    let mut agent = marking(&host.path("mark"));
    *agent.last_mut().unwrap() ^= 1;
    mirror.shelf.give(&mirror.agent, Way::Instead(agent));
    refused(&host, &mirror, 3, "the agent is not what the line names");
    let left = std::fs::read_dir(host.path("bin")).unwrap().count();
    assert_eq!(left, 0, "what was refused is not kept to go on with");
}

#[test]
fn whoever_does_not_stand_under_the_root_is_not_asked_for_the_list() {
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"]] {
        let host = Host::with_only(&tools);
        // It shows the org's root to everybody, and has no certificate under it.
        let shelf = Shelf::serve(&Credential::make());
        let mirror = Mirror::on(shelf, &Credential::make(), &marking(&host.path("mark")), "linux x86_64");
        refused(&host, &mirror, 3, "is not the org's gateway");
        assert_eq!(mirror.shelf.asked(&mirror.root), [None]);
        assert_eq!(mirror.shelf.asked(&mirror.list), []);
    }
}

#[test]
fn a_root_that_this_machine_believes_for_other_things_is_not_believed() {
    // As administrators tell curl and wget of a root of their company.
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"]] {
        let host = Host::with_only(&tools);
        let company = Credential::make();
        let mirror =
            Mirror::on(Shelf::serve(&company), &Credential::make(), &marking(&host.path("mark")), "linux x86_64");
        let file = host.path("company.pem");
        std::fs::write(&file, &company.root_pem).unwrap();
        std::fs::write(host.path(".curlrc"), "insecure\nlocation\n").unwrap();
        std::fs::write(host.path(".wgetrc"), "check_certificate = off\n").unwrap();
        let mut command = host.command(&mirror.words(&mirror.shelf.url(), &[]));
        command.env("SSL_CERT_FILE", &file).env("CURL_CA_BUNDLE", &file).stdin(std::process::Stdio::null());
        let told = command.output().unwrap();
        ended(&told, 3, "is not the org's gateway");
        assert!(stderr(&told).contains("Somebody may be in the middle: compare the address"), "{}", stderr(&told));
        assert!(!ran(&host) && mirror.shelf.asked(&mirror.list).is_empty());
    }
}

#[test]
fn a_web_server_in_the_gateways_place_is_said_to_be_none() {
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"]] {
        let host = Host::with_only(&tools);
        let mirror = mirror(&host);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
            }
        });
        let told = host.run(&mirror.words(&url, &[]), "code");
        ended(&told, 1, "does not speak TLS 1.3 with this machine");
        assert!(stderr(&told).contains("it is not the org's gateway, or"), "{}", stderr(&told));
        assert!(!ran(&host));
    }
}

#[test]
fn a_download_that_is_cut_anywhere_runs_nothing() {
    let whole = marking(std::path::Path::new("/nowhere")).len();
    for length in [0, 1, 10, 40, 80, 4096, whole / 2, whole - 1] {
        let host = Host::new();
        let mirror = mirror(&host);
        mirror.shelf.give(&mirror.agent, Way::ShortenedTo(length));
        refused(&host, &mirror, 1, "no gateway gave the agent");
    }
    for length in [0, 5, 17, 60] {
        let host = Host::new();
        let mirror = mirror(&host);
        mirror.shelf.give(&mirror.list, Way::ShortenedTo(length));
        let (exit, why) = if length == 0 { (1, "no gateway gave") } else { (3, "is not what the line names") };
        refused(&host, &mirror, exit, why);
    }
}

#[test]
fn a_download_without_an_end_is_ended() {
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"]] {
        for which in 0..3 {
            let host = Host::with_only(&tools);
            let mirror = mirror(&host);
            mirror.shelf.give([&mirror.root, &mirror.list, &mirror.agent][which], Way::Endless);
            refused(&host, &mirror, 3, "is not what the line names");
        }
    }
}

#[test]
fn nobody_is_sent_elsewhere() {
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"]] {
        for which in 0..3 {
            let host = Host::with_only(&tools);
            let (mirror, elsewhere) = (mirror(&host), Shelf::serve(&Credential::make()));
            let digest = [&mirror.root, &mirror.list, &mirror.agent][which].clone();
            mirror.shelf.give(&digest, Way::Elsewhere(format!("{}/v1/file/{digest}", elsewhere.url())));
            refused(&host, &mirror, 1, "no gateway gave");
            assert_eq!(elsewhere.asked(&digest), [], "it went there");
        }
    }
}

#[test]
fn an_honest_gateway_serves_where_another_lies_or_is_gone() {
    let host = Host::new();
    let mirror = mirror(&host);
    let liar = Shelf::serve(&Credential::make());
    let agent = marking(&host.path("mark"));
    let lied = liar.put(&agent, Way::Instead(theirs(&host)));
    assert_eq!(lied, mirror.agent);
    let (first, last) = (liar.url(), mirror.shelf.url());
    let nobody = Nobody::new();
    let gone = format!("https://{nobody}");
    let words = [&["--gateway", &gone, "--gateway", &first][..], &mirror.words(&last, &[])].concat();
    succeeded(&host.run(&words, "code"));
    assert!(host.agent().exists() && ran(&host));
}

#[test]
fn a_script_that_was_cut_off_does_nothing() {
    let whole = std::fs::read(script()).unwrap();
    // At the ends of lines and between, and at each byte of the last line but one.
    let cuts = (0..whole.len() - 10).step_by(397).chain(whole.len() - 12..whole.len() - 7);
    let host = Host::new();
    let mirror = mirror(&host);
    for cut in cuts {
        let part = host.path("part.sh");
        write_program(&part, &whole[..cut]);
        let mut command = host.shell();
        command.arg(&part).args(mirror.words(&mirror.shelf.url(), &[])).stdin(std::process::Stdio::null());
        let told = command.output().unwrap();
        assert!(!ran(&host) && !host.path("bin").exists(), "cut at {cut}: {}", stderr(&told));
        assert_eq!(mirror.shelf.asked(&mirror.root), [], "cut at {cut}");
    }
}
