//! Documents that must equal the list of commands. `UPDATE=1` writes the generated one anew.

use crate::api::commands::ALL;
use crate::api::openapi;
use crate::protocol::Code;

fn root() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_default()
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test that writes a document on demand"
)]
fn the_openapi_document_is_that_of_the_commands() {
    let made = openapi::yaml().unwrap();
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(root().join("openapi.yaml"), &made).unwrap();
    }
    assert!(
        read("openapi.yaml") == made,
        "openapi.yaml is not what the commands make: run `UPDATE=1 cargo test --lib api::tests::documents`"
    );
}

#[test]
fn every_command_is_in_the_compatibility_page() {
    let page = read("docs/API-COMPAT.md");
    let rows: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
            Some((cells.next()?.trim_end_matches('`'), cells.next()?))
        })
        .collect();
    let here: Vec<&str> = ALL.iter().map(|entry| entry.command.name).collect();
    let listed: Vec<&str> = rows
        .iter()
        .filter(|(_, status)| matches!(*status, "done" | "differs"))
        .map(|(name, _)| *name)
        .collect();
    let (mut here_sorted, mut listed_sorted) = (here.clone(), listed.clone());
    here_sorted.sort_unstable();
    listed_sorted.sort_unstable();
    assert_eq!(
        listed_sorted, here_sorted,
        "docs/API-COMPAT.md must list every command as done or differs"
    );
    for (name, status) in rows {
        assert!(
            matches!(status, "done" | "differs" | "not done"),
            "docs/API-COMPAT.md: {name} is neither done nor differs nor not done: {status}"
        );
    }
}

#[test]
fn every_code_is_in_the_page_of_errors() {
    let page = read("docs/ERRORS.md");
    for code in Code::ALL {
        assert!(
            page.contains(&format!("| {} |", code.number())),
            "docs/ERRORS.md has no row for {}",
            code.number()
        );
    }
}
