//! `docs/STATE-MACHINE.md` is rendered from the constant `TRANSITIONS`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cksd::domain::cluster::state::{State, TRANSITIONS};

use crate::files;

const DOCUMENT: &str = "docs/STATE-MACHINE.md";

const INTRODUCTION: &str = "\
# The states of a cluster

Generated from `TRANSITIONS` in `src/domain/cluster/state.rs` by `UPDATE=1 cargo test --test tidy`; do not edit.

The state changes only by an event of this page, in `db::clusters`, by compare-and-set on the old state and the
generation. A state marked with * is *transitional*: a live job must own the cluster (invariant I1).

One event has no row: *given back*. An operation that undid everything it had changed returns the cluster to the
state that it started from (Running, Alert or Stopped, stored with the job). It is shown as `OperationSucceeded`.
";

fn mark(state: State) -> String {
    format!("{state}{}", if state.is_transitional() { " *" } else { "" })
}

fn render() -> String {
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Diagram\n\n```mermaid\nstateDiagram-v2\n    [*] --> Created\n");
    let mut edges: BTreeMap<(State, State), Vec<String>> = BTreeMap::new();
    for (from, event, to) in TRANSITIONS {
        edges.entry((*from, *to)).or_default().push(event.to_string());
    }
    for ((from, to), events) in &edges {
        writeln!(page, "    {from} --> {to}: {}", events.join(", ")).unwrap();
    }
    page.push_str(
        "    Destroyed --> [*]\n```\n\n## Table\n\n| state | event | next state |\n|---|---|---|\n",
    );
    for state in State::ALL {
        let rows = TRANSITIONS.iter().filter(|(from, _, _)| from == state);
        for (from, event, to) in rows {
            writeln!(page, "| {} | {event} | {} |", mark(*from), mark(*to)).unwrap();
        }
    }
    let ends = State::ALL
        .iter()
        .filter(|state| TRANSITIONS.iter().all(|(from, _, _)| from != *state));
    let ends: Vec<&str> = ends.map(|state| state.name()).collect();
    writeln!(page, "\nNothing leads out of {}.", ends.join(", ")).unwrap();
    page
}

#[test]
fn the_document_equals_the_code() {
    let path = files::root().join(DOCUMENT);
    let rendered = render();
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &rendered).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == rendered,
        "{DOCUMENT} is not what the code renders: run `UPDATE=1 cargo test --test tidy`"
    );
}
