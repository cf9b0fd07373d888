//! Documents hold: links lead somewhere, files that other programs read can be read.

use std::path::Path;

use crate::{files, report};

/// The targets of the links outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for part in outside.split("](").skip(1).filter(|_| !in_code) {
            let target = part.split(')').next().unwrap_or_default();
            found.push((number + 1, target.trim().to_owned()));
        }
    }
    found
}

/// A heading as the part of a link after `#`.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().replace(' ', "-")
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#')))
        .any(|found| found == wanted)
}

fn check(document: &Path, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, part) = target
        .split_once('#')
        .map_or((target, None), |(file, part)| (file, Some(part)));
    let folder = document.parent().unwrap_or(document);
    let file = if file.is_empty() {
        document.to_owned()
    } else {
        folder.join(file)
    };
    if !file.exists() {
        return Err(format!("`{target}` leads to no file"));
    }
    match part {
        Some(part) if file.is_file() && !has_anchor(&files::read(&file), part) => {
            Err(format!("`{target}` leads to no heading"))
        }
        _ => Ok(()),
    }
}

#[test]
fn relative_links_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in files::below("", &[".md"]) {
        for (line, target) in links(&files::read(&document)) {
            if let Err(problem) = check(&document, &target) {
                wrong.push(format!("{}:{line}: {problem}", files::relative(&document)));
            }
        }
    }
    report("links", &wrong);
}

#[test]
fn yaml_and_toml_files_can_be_read() {
    let mut wrong = Vec::new();
    for file in files::below("", &[".yaml", ".yml"]) {
        if let Err(error) = serde_yaml_ng::from_str::<serde_yaml_ng::Value>(&files::read(&file)) {
            wrong.push(format!("{}: {error}", files::relative(&file)));
        }
    }
    for file in files::below("", &[".toml"]) {
        if let Err(error) = files::read(&file).parse::<toml::Table>() {
            wrong.push(format!("{}: {error}", files::relative(&file)));
        }
    }
    report("files that cannot be read", &wrong);
}

#[test]
fn links_in_code_are_no_links() {
    let text = "[a](b.md)\n```\n[c](d.md)\n```\n`[e](f.md)` and [g](h.md#i-j)\n";
    assert_eq!(links(text), [(1, "b.md".to_owned()), (5, "h.md#i-j".to_owned())]);
    assert!(has_anchor("# One\n## What to do, when\n", "what-to-do-when"));
}
