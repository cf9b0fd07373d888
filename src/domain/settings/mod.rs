//! The CloudStack-style settings: key, type, default, range and meaning.
//!
//! Names and defaults are those of `cks-facts.md` 5 and `behaviour.md` 12. Values stand in the table
//! `configuration`; a key without a row has its default.
//!
//! What this must not know: how values are stored.

mod table;

use std::collections::BTreeMap;

pub use table::*;

/// The public port at which the SSH forwards of the nodes begin.
pub const NODES_START_PORT: i64 = 2222;

/// The type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number within these bounds, both included.
    Number {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// Any text.
    Text,
}

/// Whether a change works at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// From the next use on.
    AtOnce,
    /// From the next start of the service on.
    AtRestart,
}

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub name: &'static str,
    /// The type and range of its value.
    pub kind: Kind,
    /// Its value without a row.
    pub default: &'static str,
    /// Whether a change works at once.
    pub takes: Takes,
    /// What it means.
    pub description: &'static str,
}

/// A value that a setting does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidValue {
    /// Neither true nor false.
    #[error("the value of {name} must be true or false, not {value}")]
    NotBoolean {
        /// The key.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// No whole number, or outside the range.
    #[error("the value of {name} must be a whole number from {min} to {max}, not {value}")]
    NotInRange {
        /// The key.
        name: &'static str,
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// What was given.
        value: String,
    },
    /// The port of the first node's SSH, which etcd nodes may not take.
    #[error("the value of {name} must not be {value}, where the ports of the other nodes begin")]
    TakenPort {
        /// The key.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// Too long, or with control characters.
    #[error("the value of {name} must be plain text of at most 4095 characters")]
    NotText {
        /// The key.
        name: &'static str,
    },
}

impl Setting {
    /// Checks a value and gives the form in which it is stored.
    ///
    /// # Errors
    /// [`InvalidValue`].
    pub fn check(&self, value: &str) -> Result<String, InvalidValue> {
        let value = value.trim();
        if self.name == ETCD_START_PORT.name && value.parse() == Ok(NODES_START_PORT) {
            return Err(InvalidValue::TakenPort {
                name: self.name,
                value: value.to_owned(),
            });
        }
        match self.kind {
            Kind::Boolean => match value.to_ascii_lowercase().as_str() {
                word @ ("true" | "false") => Ok(word.to_owned()),
                _ => Err(InvalidValue::NotBoolean {
                    name: self.name,
                    value: value.to_owned(),
                }),
            },
            Kind::Number { min, max } => value
                .parse::<i64>()
                .ok()
                .filter(|number| (min..=max).contains(number))
                .map(|number| number.to_string())
                .ok_or_else(|| InvalidValue::NotInRange {
                    name: self.name,
                    min,
                    max,
                    value: value.to_owned(),
                }),
            Kind::Text if value.len() > 4095 || value.chars().any(char::is_control) => {
                Err(InvalidValue::NotText { name: self.name })
            }
            Kind::Text => Ok(value.to_owned()),
        }
    }

    /// The word for its type in listConfigurations.
    #[must_use]
    pub fn type_word(&self) -> &'static str {
        match self.kind {
            Kind::Boolean => "Boolean",
            Kind::Number { .. } => "Number",
            Kind::Text => "String",
        }
    }
}

/// The setting of a key.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    ALL.iter().copied().find(|setting| setting.name == name)
}

/// The values of all settings at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Settings of these rows; every other key has its default.
    #[must_use]
    pub fn from_rows(rows: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            values: rows.into_iter().collect(),
        }
    }

    /// The value as text. A stored value that the setting would not take today counts as the default.
    #[must_use]
    pub fn text(&self, setting: &Setting) -> String {
        self.values
            .get(setting.name)
            .and_then(|value| setting.check(value).ok())
            .unwrap_or_else(|| setting.default.to_owned())
    }

    /// The value as a number; 0 for a setting that is none.
    #[must_use]
    pub fn number(&self, setting: &Setting) -> i64 {
        self.text(setting).parse().unwrap_or_default()
    }

    /// The value as a number of seconds; never negative.
    #[must_use]
    pub fn seconds(&self, setting: &Setting) -> u64 {
        u64::try_from(self.number(setting)).unwrap_or_default()
    }

    /// Whether the value is true.
    #[must_use]
    pub fn boolean(&self, setting: &Setting) -> bool {
        self.text(setting) == "true"
    }

    /// Seconds that one drain may take: values below 1 mean the default.
    #[must_use]
    pub fn drain_timeout_secs(&self) -> u64 {
        match self.number(&DRAIN_TIMEOUT) {
            secs if secs < 1 => 300,
            secs => secs.unsigned_abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: &str) -> Settings {
        Settings::from_rows([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn every_default_is_a_value_of_its_setting() {
        for setting in ALL {
            assert_eq!(
                setting.check(setting.default).as_deref(),
                Ok(setting.default),
                "{}",
                setting.name
            );
            assert_eq!(find(setting.name), Some(*setting));
        }
        let mut names: Vec<_> = ALL.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn values_are_checked() {
        assert_eq!(
            MAX_SIZE.check("many").unwrap_err().to_string(),
            "the value of cloud.kubernetes.cluster.max.size must be a whole number from 1 to 10000, not many"
        );
        assert_eq!(MAX_SIZE.check(" 12 ").as_deref(), Ok("12"));
        assert!(MAX_SIZE.check("0").is_err());
        assert_eq!(THROTTLING_ENABLED.check("TRUE").as_deref(), Ok("true"));
        assert_eq!(
            THROTTLING_ENABLED.check("yes").unwrap_err().to_string(),
            "the value of api.throttling.enabled must be true or false, not yes"
        );
        assert!(NETWORK_OFFERING.check("a\u{7}").is_err());
        assert!(ETCD_START_PORT.check("2222").is_err());
        assert!(ETCD_START_PORT.check("2223").is_ok());
    }

    #[test]
    fn a_key_without_a_row_has_its_default() {
        let none = Settings::default();
        assert_eq!(none.number(&MAX_SIZE), 10);
        assert_eq!(none.seconds(&SCALE_TIMEOUT), 3600);
        assert!(none.boolean(&SERVICE_ENABLED));
        assert_eq!(one(MAX_SIZE.name, "20").number(&MAX_SIZE), 20);
        assert_eq!(one(MAX_SIZE.name, "nonsense").number(&MAX_SIZE), 10);
    }

    #[test]
    fn a_drain_timeout_below_one_means_the_default() {
        assert_eq!(Settings::default().drain_timeout_secs(), 300);
        for (stored, meant) in [("0", 300), ("-5", 300), ("1", 1), ("60", 60)] {
            assert!(DRAIN_TIMEOUT.check(stored).is_ok(), "{stored}");
            assert_eq!(one(DRAIN_TIMEOUT.name, stored).drain_timeout_secs(), meant);
        }
    }
}
