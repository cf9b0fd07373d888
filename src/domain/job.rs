//! Jobs as clients see them: status, failure, what a job waits for, and the object `operation` (`behaviour.md` 2).

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The only statuses that are ever shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobStatus {
    /// 0: not ended, whatever it does or waits for.
    InProgress,
    /// 1
    Succeeded,
    /// 2; a cancelled job too, since clients poll for ever on any other number.
    Failed,
}

impl JobStatus {
    /// The number on the wire and in the database.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            JobStatus::InProgress => 0,
            JobStatus::Succeeded => 1,
            JobStatus::Failed => 2,
        }
    }

    /// The status of a stored number.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(JobStatus::InProgress),
            1 => Some(JobStatus::Succeeded),
            2 => Some(JobStatus::Failed),
            _ => None,
        }
    }
}

/// Why a job failed: CloudStack's code and a text for the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The error code (`api-protocol.md` 2.4).
    pub code: i64,
    /// What went wrong and what would make it work.
    pub text: String,
}

impl Failure {
    /// A failure with the code of everything that has none of its own: 530.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            code: 530,
            text: text.into(),
        }
    }

    /// A failure with a code of its own.
    pub fn with_code(code: i64, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    /// The failure as `jobresult`.
    #[must_use]
    pub fn to_result(&self) -> Value {
        json!({ "errorcode": self.code, "errortext": self.text })
    }
}

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// In words.
    pub reason: String,
    /// Where in the code it was decided to wait (`file:line`).
    pub at: String,
    /// Since when it has waited for this.
    pub since: Timestamp,
}

/// Why a job must come to an end although its work is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// Its deadline has passed.
    Deadline,
    /// Somebody cancelled it.
    Cancel,
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndReason::Deadline => "its deadline has passed",
            EndReason::Cancel => "it was cancelled",
        })
    }
}

/// Where an operation is; stored with the job as it goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The step, in a word.
    pub step: String,
    /// The node that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Since when it is at this step and node; filled by the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Which attempt it is, where attempts are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Nodes that are done.
    #[serde(default)]
    pub nodes_done: Vec<String>,
    /// Nodes that were skipped.
    #[serde(default)]
    pub nodes_skipped: Vec<Skipped>,
}

/// A node that needed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// The node.
    pub node: String,
    /// Why it needed nothing, as seen.
    pub proof: String,
}

/// A time as replies show it: `2022-04-18T06:21:58+0000`.
#[must_use]
pub fn wire_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()
}

/// The object `operation` of queryAsyncJobResult and of a successful result.
#[must_use]
pub fn operation_object(
    progress: Option<&Progress>,
    waiting: Option<&Waiting>,
    deadline: Option<Timestamp>,
) -> Value {
    let mut object = Map::new();
    if let Some(progress) = progress {
        object.insert("step".into(), json!(progress.step));
        if let Some(node) = &progress.node {
            object.insert("node".into(), json!(node));
        }
        if let Some(since) = progress.since {
            object.insert("since".into(), json!(wire_time(since)));
        }
        if let Some(attempt) = progress.attempt {
            object.insert("attempt".into(), json!(attempt));
        }
    }
    if let Some(waiting) = waiting {
        object.insert("waitingfor".into(), json!(waiting.reason));
        object.insert("waitingsince".into(), json!(wire_time(waiting.since)));
    }
    if let Some(deadline) = deadline {
        object.insert("deadline".into(), json!(wire_time(deadline)));
    }
    if let Some(progress) = progress {
        object.insert("nodesdone".into(), json!(progress.nodes_done));
        let skipped: Vec<Value> = progress
            .nodes_skipped
            .iter()
            .map(|one| json!({ "node": one.node, "proof": one.proof }))
            .collect();
        object.insert("nodesskipped".into(), Value::Array(skipped));
    }
    Value::Object(object)
}

/// How long until `end`, zero when it has passed.
#[must_use]
pub fn time_left(now: Timestamp, end: Timestamp) -> Duration {
    end.duration_since(now).try_into().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_time_is_shown_as_cloudstack_shows_it() {
        assert_eq!(
            wire_time(at("2022-04-18T06:21:58.123Z")),
            "2022-04-18T06:21:58+0000"
        );
    }

    #[test]
    fn time_left_never_goes_below_zero() {
        let (early, late) = (at("2026-01-01T00:00:00Z"), at("2026-01-01T00:00:05Z"));
        assert_eq!(time_left(early, late), Duration::from_secs(5));
        assert_eq!(time_left(late, early), Duration::ZERO);
        assert!(time_left(early, Timestamp::MAX) > Duration::from_hours(24));
    }

    #[test]
    fn the_operation_object_leaves_out_what_is_not_known() {
        let progress = Progress {
            step: "drain".into(),
            node: Some("wk-2".into()),
            since: Some(at("2026-01-01T00:00:00Z")),
            attempt: Some(2),
            nodes_done: vec!["wk-3".into()],
            nodes_skipped: vec![],
        };
        let waiting = Waiting {
            reason: "the next attempt".into(),
            at: "src/x.rs:1".into(),
            since: at("2026-01-01T00:01:00Z"),
        };
        let full = operation_object(Some(&progress), Some(&waiting), Some(at("2026-01-01T01:00:00Z")));
        assert_eq!(
            full,
            json!({
                "step": "drain", "node": "wk-2", "since": "2026-01-01T00:00:00+0000", "attempt": 2,
                "waitingfor": "the next attempt", "waitingsince": "2026-01-01T00:01:00+0000",
                "deadline": "2026-01-01T01:00:00+0000", "nodesdone": ["wk-3"], "nodesskipped": [],
            })
        );
        assert_eq!(operation_object(None, None, None), json!({}));
    }

    #[test]
    fn statuses_are_the_three_numbers() {
        for status in [JobStatus::InProgress, JobStatus::Succeeded, JobStatus::Failed] {
            assert_eq!(JobStatus::from_code(status.code()), Some(status));
        }
        assert_eq!(JobStatus::from_code(3), None);
    }
}
