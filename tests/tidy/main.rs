//! What a compiler does not check: layering, sizes, module docs, generated documents, links, words.
//!
//! Needs no database and no network; takes seconds. Each test collects everything that is wrong before it
//! fails, so that one run shows all. `UPDATE=1 cargo test --test tidy` rewrites the generated documents.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

mod documents;
mod files;
mod layering;
mod module_docs;
mod references;
mod scripts;
mod sizes;
mod source;
mod state_column;
mod state_machine;
mod words;

/// Fails with every finding on a line of its own.
#[track_caller]
fn report(what: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{what}:\n  {}\n", findings.join("\n  "));
}
