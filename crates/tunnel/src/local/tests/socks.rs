//! SOCKS5, spoken well and badly.

use std::process::Stdio;

use tokio::process::Command;

use super::*;

const NOTHING: &[u8] = &[5, 1, 0];

fn connect(to: &[u8]) -> Vec<u8> {
    [&[5, 1, 0, 3, u8::try_from(to.len()).unwrap()], to, &[0, 80]].concat()
}

fn login(user: &str, password: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).unwrap();
    [&[5, 1, 2, 1, length(user)], user.as_bytes(), &[length(password)], password.as_bytes()].concat()
}

/// The method, and the reply.
const fn replied(code: u8) -> [u8; 12] {
    [5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn ask(at: SocketAddr, to: &[u8]) -> Vec<u8> {
    say(at, &[NOTHING, &connect(to)].concat()).await
}

#[tokio::test]
async fn a_stream_carries_both_ways_and_each_way_ends_by_itself() {
    let mut house = House::new().await;
    let at = house.follow().await.at[&ListenerId::Socks];
    let mut socket = TcpStream::connect(at).await.unwrap();
    // All at once: what stands behind the words is for the service.
    socket.write_all(&[NOTHING, &connect(b"echo.harbor.internal"), b"first "].concat()).await.unwrap();
    let mut head = [0; 18];
    socket.read_exact(&mut head).await.unwrap();
    assert_eq!(head, *[&replied(0)[..], b"first "].concat());
    assert_echoes(&mut socket).await;
    socket.shutdown().await.unwrap();
    assert_eq!(rest(&mut socket).await, b"bye", "the other way is still open");
    assert_eq!(house.last_asked(), (of("user/alice"), wanted("echo")));
}

#[tokio::test]
async fn names_are_taken_as_programs_write_them_and_nothing_else_is() {
    let mut house = House::new().await;
    let at = house.follow().await.at[&ListenerId::Socks];
    let long = [&[b'a'; 239][..], b".harbor.internal"].concat();
    for (to, code) in [
        (&b"echo.harbor.internal"[..], 0),
        (b"echo.harbor.internal.", 0),
        (b"ECHO.Harbor.INTERNAL", 0),
        (b"echo.alpha.harbor.internal", 0),
        (b"ech\xc3\xb6.harbor.internal", 4),
        (b"ech\xff.harbor.internal", 4),
        (b"echo\0.harbor.internal", 4),
        (b"echo..harbor.internal", 4),
        (&long, 4),
        (b"missing.harbor.internal", 4),
        (b"down.harbor.internal", 5),
        (b"secret.harbor.internal", 2),
        (b"far.harbor.internal", 3),
        (b"example.com", 2),
        (b"echo.port.internal", 2),
        (b"127.0.0.1", 2),
        (b"::1", 2),
    ] {
        let expected = if code == 0 { [&replied(0)[..], b"bye"].concat() } else { replied(code).to_vec() };
        assert_eq!(ask(at, to).await, expected, "{}", String::from_utf8_lossy(to));
    }
    assert_eq!(house.refused("socks_name"), 9);
}

#[tokio::test]
async fn only_connect_is_served() {
    let mut house = House::new().await;
    let at = house.follow().await.at[&ListenerId::Socks];
    for command in [0, 2, 3, 255] {
        let request = [NOTHING, &[5, command, 0, 1, 127, 0, 0, 1, 0, 80]].concat();
        assert_eq!(say(at, &request).await, replied(7), "{command}");
    }
    let request = [NOTHING, &[5, 1, 0, 9, 127, 0, 0, 1, 0, 80]].concat();
    assert_eq!(say(at, &request).await, replied(8));
    assert_eq!(house.refused("socks_command"), 4);
    assert!(house.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn garbage_is_not_answered() {
    let mut house = House::new().await;
    let at = house.follow().await.at[&ListenerId::Socks];
    let words: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00",
        b"\x16\x03\x01\x02\x00\x01",
        &[0; 600],
        &[255; 600],
        &[5, 0, 0],
        &[5],
    ];
    for words in words {
        assert_eq!(say(at, words).await, b"", "{words:?}");
    }
    assert_eq!(house.refused("socks_garbage"), 6, "one hung up in time");
    assert_eq!(say(at, &[5, 1, 1]).await, [5, 0xff], "none of its methods is known");
    assert_eq!(ask(at, b"echo.harbor.internal").await, [&replied(0)[..], b"bye"].concat(), "others are served");
}

#[tokio::test]
async fn whoever_says_too_little_for_too_long_is_sent_away() {
    let mut house = House::new().await;
    let at = house.follow().await.at[&ListenerId::Socks];
    let mut slow = TcpStream::connect(at).await.unwrap();
    slow.write_all(&[5, 1]).await.unwrap();
    assert_eq!(ask(at, b"echo.harbor.internal").await, [&replied(0)[..], b"bye"].concat(), "others do not wait");
    assert_eq!(rest(&mut slow).await, b"");
    assert_eq!(house.refused("socks_slow"), 1);
}

#[tokio::test]
async fn with_passwords_nobody_speaks_for_a_user_without_one() {
    let mut house = House::new().await;
    house.home.insert(of("user/bob"));
    house.running = running("127.0.0.1:0", true);
    let listens = house.follow().await;
    let (socks, bob) = (listens.at[&ListenerId::Socks], listens.at[&ListenerId::SocksOf(of("user/bob"))]);
    let request = connect(b"echo.harbor.internal");
    assert_eq!(say(socks, &[NOTHING, &request].concat()).await, [5, 0xff]);
    assert_eq!(say(bob, &[NOTHING, &request].concat()).await, [5, 0xff]);
    for (at, user, password) in
        [(socks, "alice", "land"), (socks, "bob", "sea"), (socks, "node", ""), (socks, "", ""), (bob, "alice", "sea")]
    {
        assert_eq!(say(at, &login(user, password)).await, [5, 2, 1, 1], "{user}");
    }
    assert!(house.asked.lock().unwrap().is_empty());
    let counted = ["socks_no_method", "socks_wrong_password", "socks_no_password", "socks_other_door"];
    assert_eq!(counted.map(|why| house.refused(why)), [2, 3, 1, 1]);
    let good = say(socks, &[login("alice", "sea"), request].concat()).await;
    assert_eq!(good, [&[5, 2, 1, 0][..], &replied(0)[2..], b"bye"].concat());
    assert_eq!(house.last_asked().0, of("user/alice"));
}

#[tokio::test]
async fn each_principal_has_a_listener_and_a_user_name_chooses_too() {
    let mut house = House::new().await;
    house.home.extend([of("user/bob"), of("service/wiki")]);
    let at = house.follow().await.at;
    for (place, words, expected) in [
        (ListenerId::Socks, NOTHING.to_vec(), "node/laptop"),
        (ListenerId::SocksOf(of("user/bob")), NOTHING.to_vec(), "user/bob"),
        (ListenerId::SocksOf(of("service/wiki")), NOTHING.to_vec(), "service/wiki"),
        (ListenerId::Socks, login("bob", ""), "user/bob"),
        (ListenerId::Socks, login("service/wiki", "x"), "service/wiki"),
        (ListenerId::Socks, login("node", ""), "node/laptop"),
    ] {
        let back = say(at[&place], &[words, connect(b"echo.harbor.internal")].concat()).await;
        assert!(back.ends_with(b"bye"), "{place:?}: {back:?}");
        assert_eq!(house.last_asked().0, of(expected), "{place:?}");
    }
}

/// A web server, as far as curl needs one.
async fn web() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = socket.read(&mut buffer).await;
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nwelcome\n").await;
        }
    });
    at
}

#[tokio::test]
async fn curl_gets_there() {
    let mut house = House::new().await;
    let nearby = Nearby { services: [(name("wiki"), web().await)].into(), ..Nearby::default() };
    house.asked = Arc::clone(&nearby.asked);
    house.listeners = Listeners::new(nearby, Arc::default(), PROGRAMS);
    house.running = running("127.0.0.1:0", true);
    let at = house.follow().await.at[&ListenerId::Socks].to_string();
    let curl = async |arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "20", "--noproxy", "", "--socks5-hostname", &at]).args(arguments);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let good = ["--proxy-user", "alice:sea", "http://Wiki.harbor.internal/"];
    assert_eq!(curl(&good).await, (Some(0), "welcome\n".to_owned()));
    assert_eq!(house.last_asked(), (of("user/alice"), wanted("wiki")));
    assert_eq!(curl(&["--proxy-user", "alice:land", "http://wiki.harbor.internal/"]).await.0, Some(97));
    assert_eq!(curl(&["http://wiki.harbor.internal/"]).await.0, Some(97));
    assert_eq!(curl(&["--proxy-user", "alice:sea", "http://example.com/"]).await.0, Some(97));
}
