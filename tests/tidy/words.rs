//! Words that belong to a workplace, not to the product. They are written in halves here, so that this file
//! does not hold them itself.

use crate::{files, report};

const BANNED: &[(&str, &str)] = &[
    ("/wo", "rk/"),
    ("/tmp/", "bash"),
    ("arti", "factory"),
    ("jfr", "og"),
    ("code", "artifact"),
    ("clau", "de"),
    ("anth", "ropic"),
    ("chat", "gpt"),
    ("co-auth", "ored-by"),
    ("brief", ".md"),
];

/// Files whose text is not ours.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE"];

#[test]
fn no_file_names_a_workplace() {
    let mut wrong = Vec::new();
    for file in files::below("", &[]) {
        let path = files::relative(&file);
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        if FOREIGN.contains(&path.as_str()) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for (left, right) in BANNED {
                if line.contains(&format!("{left}{right}")) {
                    wrong.push(format!("{path}:{}: `{left}{right}`", number + 1));
                }
            }
        }
    }
    report("words that must not stand in a file", &wrong);
}
