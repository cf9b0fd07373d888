//! Every call of a port by name and number, and the one that shall fail.

use std::collections::BTreeMap;

use crate::ports::fault::{Effect, Retry};

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Refused; nothing happened.
    Before,
    /// It happened, and an error was answered.
    After,
    /// It happened, and the answer was lost.
    Lost,
    /// No answer in time, and it never happened.
    TimedOut,
}

impl Mode {
    pub(super) const ALL: [Mode; 4] = [Mode::Before, Mode::After, Mode::Lost, Mode::TimedOut];

    /// Whether the effect happens all the same.
    pub(super) fn happens(self) -> bool {
        matches!(self, Mode::After | Mode::Lost)
    }

    /// What the error says about it.
    pub(super) fn effect(self) -> Effect {
        match self {
            Mode::Before => Effect::DidNotHappen,
            Mode::After | Mode::Lost | Mode::TimedOut => Effect::MayHaveHappened,
        }
    }

    pub(super) fn retry(self) -> Retry {
        match self {
            Mode::Before | Mode::After => Retry::Later,
            Mode::Lost | Mode::TimedOut => Retry::Soon,
        }
    }

    /// Whether the other side did not answer at all.
    pub(super) fn away(self) -> bool {
        matches!(self, Mode::Lost | Mode::TimedOut)
    }
}

/// Counts calls and knows which ones fail.
#[derive(Debug, Default)]
pub(super) struct Faults {
    counts: BTreeMap<String, u32>,
    calls: Vec<String>,
    once: Option<(String, Mode)>,
    always: Vec<(String, Mode)>,
}

impl Faults {
    /// Counts a call of this name; says how it fails, if it does.
    pub(super) fn hit(&mut self, name: &str) -> Option<Mode> {
        let count = self.counts.entry(name.to_owned()).or_default();
        *count += 1;
        let numbered = format!("{name}#{count}");
        let once = self
            .once
            .as_ref()
            .filter(|(call, _)| *call == numbered)
            .map(|(_, mode)| *mode);
        self.calls.push(numbered);
        once.or_else(|| {
            self.always
                .iter()
                .find(|(call, _)| name.starts_with(call.as_str()))
                .map(|(_, m)| *m)
        })
    }

    /// How often a call was made.
    pub(super) fn count(&self, name: &str) -> u32 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Makes one numbered call fail.
    pub(super) fn fail_once(&mut self, call: &str, mode: Mode) {
        self.once = Some((call.to_owned(), mode));
    }

    /// Makes every call whose name begins like this fail, until [`Self::relent`].
    pub(super) fn fail_always(&mut self, name: &str, mode: Mode) {
        self.always.push((name.to_owned(), mode));
    }

    /// Ends all lasting failures.
    pub(super) fn relent(&mut self) {
        self.always.clear();
    }

    /// The calls that were made, numbered by name.
    pub(super) fn calls(&self) -> &[String] {
        &self.calls
    }
}
