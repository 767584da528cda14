//! Writes the seeds of every target into a folder: `seed FOLDER`, or a new stored request: `seed --request`.

use std::path::Path;

use fuzz::targets::{ALL, enroll_request};
// Brings what the coverage flags call.
use libfuzzer_sys as _;

fn main() {
    let argument = std::env::args().nth(1).expect("a folder, or --request");
    if argument == "--request" {
        println!("{}", serde_json::to_string_pretty(&enroll_request::proved()).expect("JSON"));
        return;
    }
    for (target, seeds, check) in ALL {
        let folder = Path::new(&argument).join(target);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (n, seed) in seeds().iter().enumerate() {
            assert!(check(seed), "{target}: seed {n} is refused");
            std::fs::write(folder.join(format!("seed-{n}")), seed).expect("a file");
        }
    }
}
