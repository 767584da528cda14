//! What speaks for long or in bulk: curl that sends and asks again, a WebSocket, iperf3 both ways.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Said, Wharf};

const MIB: u64 = 1 << 20;

fn at_proxy() -> String {
    "socks5h://127.0.0.1:1080".to_owned()
}

#[test]
fn uploads_web_sockets_and_iperf_go_over_quic() {
    let said = Said {
        users: "",
        beta: "      socks: \"127.0.0.1:1080\"
      forward:
        \"127.0.0.1:5201\": {service: speed, user: ann}",
        listens: &["socks", "forward/127.0.0.1:5201"],
        told: &["asked"],
        by: "quic",
    };
    let mut wharf = Wharf::new(&[("shelf", 8080), ("asked", 8081), ("chat", 8765), ("speed", 5201)], said);
    curl_sends_and_asks_again(&mut wharf);
    a_web_socket_is_whole(&mut wharf);
    iperf_moves_all_of_it(&mut wharf);
    wharf.nothing_is_open();
}

fn curl_sends_and_asks_again(wharf: &mut Wharf) {
    let folder = wharf.place.path("shelf");
    std::fs::create_dir(&folder).unwrap();
    let at = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {at}/{kind};")).join(" ");
    let config = format!(
        "daemon off; master_process off; user root; pid {at}/pid; error_log stderr;
events {{}}
http {{
    access_log off; client_max_body_size 64m; {temporary}
    server {{
        listen 127.0.0.1:8080;
        root {at}; dav_methods PUT;
    }}
    server {{
        listen 127.0.0.1:8081 proxy_protocol;
        return 200 $proxy_protocol_addr;
    }}
}}
"
    );
    std::fs::write(folder.join("nginx.conf"), config).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.args(["-e", "stderr", "-c"]).arg(folder.join("nginx.conf"));
    wharf.serve("shelf", &nginx);

    let (cargo, back) = (wharf.noise("cargo", 6 << 20), wharf.place.path("cargo.back"));
    let url = "http://shelf.harbor.internal/cargo";
    let mut put = Command::new("curl");
    put.args(["-sS", "-f", "--proxy", &at_proxy(), "-T"]).arg(&cargo).arg(url);
    wharf.ran(&put);
    let bytes = std::fs::read(cargo).unwrap();
    assert!(std::fs::read(folder.join("cargo")).unwrap() == bytes, "not the same bytes");
    // One connection serves for three requests.
    let mut get = Command::new("curl");
    get.args(["-sS", "-f", "--proxy", &at_proxy(), "-w", "%{num_connects} "]);
    for _ in 0..3 {
        get.args(["-o", &back.to_string_lossy(), url]);
    }
    assert_eq!(wharf.ran(&get).trim(), "1 0 0");
    assert!(std::fs::read(back).unwrap() == bytes, "not the same bytes");
    let all = bytes.len() as u64;
    wharf.carried("shelf", "quic", 2, (all, 3 * all));
    assert_eq!(wharf.closed("shelf").len(), 2);
    // The same server where it is told who calls, and would take no connection that does not begin with it.
    let mut get = Command::new("curl");
    get.args(["-sS", "-f", "--proxy", &at_proxy(), "http://asked.harbor.internal/"]);
    assert_eq!(wharf.ran(&get), wharf.lan.address("beta"));
}

/// Both ends are the same real library, in an environment that `scripts/test` makes.
fn a_web_socket_is_whole(wharf: &mut Wharf) {
    let house = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = house.join("target/websockets-17.4/bin/python");
    assert!(python.exists(), "`{}` is missing: scripts/test makes it", python.display());
    let program = house.join("trials/tests/tunnel/programs/chat.py");
    let mut server = Command::new(&python);
    server.arg(&program).args(["serve", "8765"]);
    wharf.serve("chat", &server);
    let mut client = Command::new(&python);
    client.arg(&program).args(["ask", "ws://chat.harbor.internal/", &at_proxy()]);
    let told: Value = serde_json::from_str(&wharf.ran(&client)).unwrap();
    let wanted = serde_json::json!({
        "same": 5, "pinged": true, "ping_back": "pong", "end": [4007, "enough is enough"],
    });
    assert_eq!(told, wanted);
    wharf.carried("chat", "quic", 1, (4 * MIB, 4 * MIB));
}

fn iperf_moves_all_of_it(wharf: &mut Wharf) {
    let mut server = Command::new("iperf3");
    server.args(["--server", "--bind", "127.0.0.1"]);
    wharf.serve("speed", &server);
    let measure = |more: &[&str]| -> Value {
        let mut client = Command::new("iperf3");
        client.args(["--client", "127.0.0.1", "--json", "--bytes", &(64 * MIB).to_string()]).args(more);
        serde_json::from_str(&wharf.ran(&client)).unwrap()
    };
    let mut streams = 0;
    for (more, parallel) in
        [(&["--reverse"][..], 1), (&["--reverse", "--parallel", "4"], 4), (&[], 1), (&["--parallel", "4"], 4)]
    {
        let told = measure(more);
        let bytes = |which: &str| told["end"][which]["bytes"].as_u64().unwrap();
        let (sent, received) = (bytes("sum_sent"), bytes("sum_received"));
        // It is over when the client has all, or has handed all over: then the server hears no more of what is under way.
        let least = if more.contains(&"--reverse") { 64 * MIB } else { 1 };
        assert!(sent >= 64 * MIB && (least..=sent).contains(&received), "{more:?}: {sent} sent, {received} received");
        // One beside those that were asked for, to talk about it.
        streams += parallel + 1;
    }
    wharf.carried("speed", "quic", streams, (64 * MIB, 128 * MIB));
    assert_eq!(wharf.closed("speed").len(), streams);
}
