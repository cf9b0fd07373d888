//! The error of a drain that a person can act on.

use serde::{Deserialize, Serialize};

use super::class::Class;

/// Most characters of kubectl's output in an error.
pub const TAIL_LENGTH: usize = 2000;

/// A drain that failed for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainFailure {
    /// The Kubernetes node.
    pub node: String,
    /// Its machine, name and id.
    pub vm: String,
    /// Attempts made.
    pub attempts: u32,
    /// Why the last one failed; none when there was no time for one.
    pub class: Option<Class>,
    /// The end of what kubectl printed, or the last error.
    pub output: String,
}

/// The end of a text: at most [`TAIL_LENGTH`] characters, beginning at the start of a line, ending with the
/// last line that says something.
#[must_use]
pub fn tail(text: &str) -> &str {
    let text = text.trim_end();
    let Some((cut, _)) = text.char_indices().rev().nth(TAIL_LENGTH - 1) else {
        return text;
    };
    let Some((before, rest)) = text.split_at_checked(cut) else {
        return text;
    };
    if before.is_empty() || before.ends_with('\n') {
        return rest;
    }
    // A single line longer than the limit is better cut than lost.
    rest.split_once('\n').map_or(rest, |(_, rest)| rest)
}

/// What happened, without what was changed, which only the caller knows.
#[must_use]
pub fn failure_text(failure: &DrainFailure) -> String {
    let DrainFailure {
        node,
        vm,
        attempts,
        class,
        output,
    } = failure;
    let made = match attempts {
        0 => "no attempt was made".to_owned(),
        1 => "1 attempt".to_owned(),
        many => format!("{many} attempts"),
    };
    let cause = class
        .as_ref()
        .map_or_else(|| "no time was left for a drain".to_owned(), Class::words);
    let mut text = format!("unable to drain Kubernetes node: {node} on VM: {vm}: {cause} ({made})");
    let said = tail(output);
    if !said.is_empty() {
        text.push_str(":\n");
        text.push_str(said);
        text.push('\n');
    }
    text
}
