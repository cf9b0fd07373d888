//! The reference tables of `docs/OPERATING.md` are rendered from the settings in the code.

use std::fmt::Write as _;

use cksd::config;
use cksd::domain::settings;

use crate::{files, report};

const DOCUMENT: &str = "docs/OPERATING.md";

/// Start-up settings.
fn start_up() -> String {
    let mut table = String::from("| setting | environment | default | meaning |\n|---|---|---|---|\n");
    for setting in config::SETTINGS {
        let default = setting
            .default
            .map_or("must be given".to_owned(), |text| format!("`{text}`"));
        let secret = if setting.secret {
            " Secret: or by file."
        } else {
            ""
        };
        let (name, variable) = (setting.name, setting.variable());
        writeln!(
            table,
            "| `{name}` | `{variable}` | {default} | {}.{secret} |",
            setting.meaning
        )
        .unwrap();
    }
    table
}

/// Settings in the database.
fn run_time() -> String {
    let mut table = String::from("| key | type | default | meaning |\n|---|---|---|---|\n");
    for setting in settings::ALL {
        let default = if setting.default.is_empty() {
            "none".to_owned()
        } else {
            format!("`{}`", setting.default)
        };
        let (name, kind) = (setting.name, setting.type_word());
        writeln!(
            table,
            "| `{name}` | {kind} | {default} | {} |",
            setting.description
        )
        .unwrap();
    }
    table
}

/// `text` with `table` between the marks of `name`.
fn with_table(text: &str, name: &str, table: &str) -> Option<String> {
    let begin = format!("<!-- generated: {name} -->\n");
    let from = text.find(&begin)? + begin.len();
    let to = from + text[from..].find("<!-- end -->")?;
    Some(format!("{}\n{table}\n{}", &text[..from], &text[to..]))
}

#[test]
fn the_tables_of_settings_equal_the_code() {
    let path = files::root().join(DOCUMENT);
    let stored = files::read(&path);
    let mut rendered = stored.clone();
    let mut wrong = Vec::new();
    for (name, table) in [
        ("start-up settings", start_up()),
        ("run-time settings", run_time()),
    ] {
        match with_table(&rendered, name, &table) {
            Some(text) => rendered = text,
            None => wrong.push(format!(
                "{DOCUMENT}: no `<!-- generated: {name} -->` with its end"
            )),
        }
    }
    report("marks of generated tables", &wrong);
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &rendered).unwrap();
        return;
    }
    assert!(
        stored == rendered,
        "{DOCUMENT} is not what the code renders: run `UPDATE=1 cargo test --test tidy`"
    );
}
