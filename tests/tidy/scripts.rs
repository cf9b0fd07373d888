//! Scripts stop at the first error and can be run; the Makefile holds names only.

use std::os::unix::fs::PermissionsExt;

use crate::{files, report};

#[test]
fn scripts_are_executable_and_stop_at_the_first_error() {
    let mut wrong = Vec::new();
    let mut all = files::below("scripts", &[]);
    all.push(files::root().join(".ci/run"));
    for file in all {
        let (path, text) = (files::relative(&file), files::read(&file));
        if text.starts_with("# shellcheck shell=") {
            continue; // Read by other scripts, never run.
        }
        let mode = file.metadata().unwrap().permissions().mode();
        if mode & 0o111 == 0 {
            wrong.push(format!("{path}: is not executable"));
        }
        if text.starts_with("#!/usr/bin/env bash") && !text.contains("\nset -euo pipefail\n") {
            wrong.push(format!("{path}: does not `set -euo pipefail`"));
        }
        if !text.starts_with("#!") {
            wrong.push(format!("{path}: has no `#!` line"));
        }
    }
    report("scripts", &wrong);
}

#[test]
fn the_makefile_holds_names_only() {
    let text = files::read(&files::root().join("Makefile"));
    let recipes = text.lines().filter_map(|line| line.strip_prefix('\t'));
    let wrong: Vec<String> = recipes
        .filter(|line| !line.trim_start_matches('@').starts_with("scripts/"))
        .map(str::to_owned)
        .collect();
    report("lines of the Makefile that are no call of a script", &wrong);
}
