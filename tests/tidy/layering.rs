//! Who may use whom: the table of `docs/ARCHITECTURE.md` against the paths in the code.
//!
//! Test modules are left out: a test arranges a world and may reach for any part of it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{files, report, source};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";
const BEGIN: &str = "<!-- layering table: read by tests/tidy -->";
const END: &str = "<!-- end of layering table -->";

/// Per module, the paths that it may use: `domain`, or narrower `db::fenced`. None: everything.
type Table = BTreeMap<String, Option<Vec<String>>>;

fn parse(document: &str) -> Table {
    let start = document
        .find(BEGIN)
        .expect("the layering table has its begin mark");
    let end = document.find(END).expect("the layering table has its end mark");
    let mut table = Table::new();
    for line in document[start..end]
        .lines()
        .filter(|line| line.starts_with("| `"))
    {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let allowed = match cells[2] {
            "everything" => None,
            "nothing of ours" => Some(Vec::new()),
            list => Some(
                list.split(',')
                    .map(|path| path.trim().trim_matches('`').to_owned())
                    .collect(),
            ),
        };
        for module in cells[1].split(',') {
            table.insert(module.trim().trim_matches('`').to_owned(), allowed.clone());
        }
    }
    table
}

fn table() -> Table {
    parse(&files::read(&files::root().join(DOCUMENT)))
}

fn permits(table: &Table, from: &str, path: &[String]) -> bool {
    let Some(to) = path.first() else { return true };
    match table.get(from) {
        Some(Some(allowed)) => {
            let path = path.join("::");
            to == from
                || !table.contains_key(to)
                || allowed
                    .iter()
                    .any(|prefix| path == *prefix || path.starts_with(&format!("{prefix}::")))
        }
        Some(None) => true,
        None => false,
    }
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let table = table();
    let mut wrong = Vec::new();
    for file in files::below("src", &[".rs"]) {
        let path = files::relative(&file);
        let module = source::module_of(&path);
        let from = module.first().map_or("cksd", String::as_str);
        if source::is_test(&path) || path == "src/lib.rs" {
            continue;
        }
        for named in source::read(&file).named {
            if !permits(&table, from, &named.segments) {
                let (line, name) = (named.line, named.segments.join("::"));
                wrong.push(format!(
                    "{path}:{line}: `{from}` may not use `{name}` (table in {DOCUMENT})"
                ));
            }
        }
    }
    report("edges that the layering does not have", &wrong);
}

#[test]
fn the_table_names_exactly_the_modules_that_there_are() {
    let named: BTreeSet<String> = table().into_keys().filter(|name| name != "cksd").collect();
    let there: BTreeSet<String> = files::below("src", &[".rs"])
        .iter()
        .filter_map(|file| source::module_of(&files::relative(file)).into_iter().next())
        .collect();
    assert_eq!(
        named, there,
        "modules of the table in {DOCUMENT}, and modules of src"
    );
}

#[test]
fn a_narrow_entry_permits_only_what_it_names() {
    let table = parse(&format!(
        "{BEGIN}\n| `operations` | `domain`, `db::fenced` | x |\n| `db` | `domain` | x |\n\
         | `domain` | nothing of ours | x |\n| `app` | everything | |\n{END}"
    ));
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    assert!(permits(&table, "operations", &path("db::fenced::Fenced")));
    assert!(!permits(&table, "operations", &path("db::clusters")));
    assert!(!permits(&table, "domain", &path("db::clusters")));
    assert!(permits(&table, "app", &path("operations::scale")));
}
