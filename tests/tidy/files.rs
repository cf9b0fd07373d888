//! The files of the repository, read from the folder rather than from git, so that a plain archive works too.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &[".git", "target", "cksd-data", "node_modules", ".venv"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The path of `file` from the root, with `/` between its parts.
pub(crate) fn relative(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

/// Every file below `folder` (from the root) whose name ends in one of `endings`, sorted; all files when
/// `endings` is empty.
pub(crate) fn below(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root().join(folder)];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().display().to_string());
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                waiting.push(path);
            } else if endings.is_empty() || endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Rust files of the library, the program and the tests.
pub(crate) fn rust() -> Vec<PathBuf> {
    let mut found = below("src", &[".rs"]);
    found.extend(below("tests", &[".rs"]));
    found
}

/// The text of a file of the repository.
#[track_caller]
pub(crate) fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
