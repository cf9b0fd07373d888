//! Faults that a test puts into the lab's cloud: by command, by count, before or after the effect.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultPoint {
    /// The request itself.
    Request,
    /// The job that an asynchronous command made.
    Job,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FaultKind {
    /// An error, and nothing was done.
    FailBefore {
        /// Error code, for instance 530.
        code: u16,
        /// Error text.
        text: String,
    },
    /// An error, although it was done.
    FailAfter {
        /// Error code.
        code: u16,
        /// Error text.
        text: String,
    },
    /// The connection closes (a job: is forgotten), and nothing was done.
    DropBefore,
    /// The connection closes (a job: is forgotten), although it was done.
    DropAfter,
    /// It takes longer.
    Delay {
        /// By how much, in milliseconds.
        millis: u64,
    },
}

/// A fault and when it strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRule {
    /// The command, or `*`.
    pub command: String,
    /// Where.
    pub point: FaultPoint,
    /// What.
    #[serde(flatten)]
    pub kind: FaultKind,
    /// Strikes only where a parameter (a job: its subject) has this value.
    #[serde(default)]
    pub only: Option<String>,
    /// How many matching calls pass first.
    #[serde(default)]
    pub skip: u32,
    /// How often it strikes; none: always.
    #[serde(default)]
    pub times: Option<u32>,
}

impl FaultRule {
    /// A fault of a request that strikes once.
    pub fn once(command: &str, kind: FaultKind) -> Self {
        Self {
            command: command.to_owned(),
            point: FaultPoint::Request,
            kind,
            only: None,
            skip: 0,
            times: Some(1),
        }
    }

    /// The same, in the job.
    #[must_use]
    pub fn in_job(self) -> Self {
        Self {
            point: FaultPoint::Job,
            ..self
        }
    }
}

/// The faults in force.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Vec<FaultRule>>,
}

impl Faults {
    /// Adds a fault.
    pub fn add(&self, rule: FaultRule) {
        self.with(|rules| rules.push(rule));
    }

    /// Removes all faults.
    pub fn clear(&self) {
        self.with(Vec::clear);
    }

    /// The faults that can still strike.
    pub fn list(&self) -> Vec<FaultRule> {
        self.with(|rules| rules.clone())
    }

    /// What strikes a call now; counts it.
    pub(crate) fn strike(&self, command: &str, point: FaultPoint, values: &[&str]) -> Vec<FaultKind> {
        self.with(|rules| {
            let mut struck = Vec::new();
            for rule in rules.iter_mut() {
                let here = rule.point == point
                    && (rule.command == "*" || rule.command == command)
                    && rule.only.as_deref().is_none_or(|only| values.contains(&only));
                if !here || rule.times == Some(0) {
                    continue;
                }
                if rule.skip > 0 {
                    rule.skip -= 1;
                    continue;
                }
                rule.times = rule.times.map(|left| left - 1);
                struck.push(rule.kind.clone());
            }
            rules.retain(|rule| rule.times != Some(0));
            struck
        })
    }

    fn with<R>(&self, f: impl FnOnce(&mut Vec<FaultRule>) -> R) -> R {
        f(&mut self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The sum of the delays among faults.
pub(crate) fn delay_of(struck: &[FaultKind]) -> Duration {
    let millis = struck.iter().map(|kind| match kind {
        FaultKind::Delay { millis } => *millis,
        _ => 0,
    });
    Duration::from_millis(millis.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_by_command_value_and_count() {
        let faults = Faults::default();
        faults.add(FaultRule {
            skip: 1,
            only: Some("v1".into()),
            ..FaultRule::once("stop", FaultKind::DropAfter)
        });
        let strike = |command: &str, value: &str| faults.strike(command, FaultPoint::Request, &[value]);
        assert!(strike("start", "v1").is_empty());
        assert!(strike("stop", "v2").is_empty());
        assert!(strike("stop", "v1").is_empty(), "the first one passes");
        assert_eq!(strike("stop", "v1"), [FaultKind::DropAfter]);
        assert!(strike("stop", "v1").is_empty(), "it strikes once");
        assert!(faults.list().is_empty());
    }

    #[test]
    fn a_fault_reads_from_json() {
        let text = r#"{"command":"*","point":"job","kind":"fail-before","code":533,"text":"full","times":2}"#;
        let rule: FaultRule = serde_json::from_str(text).unwrap();
        assert_eq!(
            rule.kind,
            FaultKind::FailBefore {
                code: 533,
                text: "full".into()
            }
        );
        assert_eq!(rule.point, FaultPoint::Job);
    }
}
