//! Every module says what it is for, and every folder what it must not know.

use crate::{files, report};

#[test]
fn every_module_begins_with_its_doc() {
    let without = files::rust()
        .into_iter()
        .filter(|file| !files::read(file).starts_with("//! "));
    let wrong: Vec<String> = without.map(|file| files::relative(&file)).collect();
    report("modules that do not begin with a `//!` doc", &wrong);
}

#[test]
fn every_folder_says_what_it_must_not_know() {
    let folders = files::below("src", &["mod.rs"]);
    let without = folders
        .into_iter()
        .filter(|file| !files::read(file).contains("//! What this must not know:"));
    let wrong: Vec<String> = without.map(|file| files::relative(&file)).collect();
    report("mod.rs without a line `What this must not know:`", &wrong);
}
