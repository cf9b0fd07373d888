//! Reads single values from file and environment and collects what is wrong with them.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

use super::{OTHER_VARIABLES, SETTINGS};

/// One setting: its name, and what the reference says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file.
    pub name: &'static str,
    /// Its default; none when it must be given.
    pub default: Option<&'static str>,
    /// What it means.
    pub meaning: &'static str,
    /// Whether it may be named by a file (`x_file`) and is never shown.
    pub secret: bool,
}

impl Setting {
    pub(super) const fn plain(
        name: &'static str,
        default: Option<&'static str>,
        meaning: &'static str,
    ) -> Self {
        Self {
            name,
            default,
            meaning,
            secret: false,
        }
    }

    pub(super) const fn secret(name: &'static str, meaning: &'static str) -> Self {
        Self {
            name,
            default: None,
            meaning,
            secret: true,
        }
    }

    /// Its name in the environment.
    #[must_use]
    pub fn variable(&self) -> String {
        variable(self.name)
    }
}

fn variable(name: &str) -> String {
    match name.strip_prefix("database_url") {
        Some(rest) => format!("DATABASE_URL{}", rest.to_uppercase()),
        None => format!("CKSD_{}", name.to_uppercase()),
    }
}

/// A value with the place that it comes from, for messages.
struct Found {
    text: String,
    place: String,
}

/// The values and what is wrong with them.
pub(super) struct Reader {
    values: BTreeMap<String, Found>,
    problems: Vec<String>,
}

impl Reader {
    pub(super) fn new(file: Option<&Path>, environment: &BTreeMap<String, String>) -> Self {
        let mut reader = Self {
            values: BTreeMap::new(),
            problems: Vec::new(),
        };
        if let Some(file) = file {
            reader.read_file(file);
        }
        reader.read_environment(environment);
        reader
    }

    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    fn read_file(&mut self, file: &Path) {
        let shown = file.display();
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return self.problems.push(format!("{shown}: cannot be read: {error}")),
        };
        let table = match text.parse::<toml::Table>() {
            Ok(table) => table,
            // The message only: its Display shows the line, which may hold a secret.
            Err(error) => {
                return self
                    .problems
                    .push(format!("{shown}: is no TOML: {}", error.message()));
            }
        };
        for (name, value) in table {
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                other => {
                    let kind = other.type_str();
                    self.problems.push(format!(
                        "`{name}` in {shown} must be a text or a number, not {kind}"
                    ));
                    continue;
                }
            };
            if is_known(&name) {
                let place = format!("`{name}` in {shown}");
                self.values.insert(name, Found { text, place });
            } else {
                self.problems
                    .push(format!("`{name}` in {shown} is no setting{}", suggestion(&name)));
            }
        }
    }

    fn read_environment(&mut self, environment: &BTreeMap<String, String>) {
        let names = SETTINGS.iter().flat_map(|setting| {
            let file = setting.secret.then(|| format!("{}_file", setting.name));
            [Some(setting.name.to_owned()), file]
        });
        let known: BTreeMap<String, String> = names.flatten().map(|name| (variable(&name), name)).collect();
        for (variable, text) in environment {
            if let Some(name) = known.get(variable) {
                // A value of the environment replaces both forms of the file's.
                let base = name.trim_end_matches("_file").to_owned();
                let shadowed = [base.clone(), format!("{base}_file")];
                self.values
                    .retain(|name, found| !shadowed.contains(name) || found.place.starts_with('$'));
                let place = format!("${variable}");
                self.values.insert(
                    name.clone(),
                    Found {
                        text: text.clone(),
                        place,
                    },
                );
            } else if variable.starts_with("CKSD_") && !OTHER_VARIABLES.contains(&variable.as_str()) {
                let name = variable.trim_start_matches("CKSD_").to_lowercase();
                self.problems
                    .push(format!("${variable} is no setting{}", suggestion(&name)));
            }
        }
    }

    /// The text of a setting, or its default; a problem when it must be given and is not.
    fn text(&mut self, name: &str) -> Option<Found> {
        let default = SETTINGS
            .iter()
            .find(|setting| setting.name == name)
            .and_then(|setting| setting.default);
        match (self.values.remove(name), default) {
            (Some(found), _) if found.text.trim().is_empty() => {
                self.problems.push(format!("{} is empty", found.place));
                None
            }
            (Some(found), _) => Some(found),
            (None, Some(default)) => Some(Found {
                text: default.to_owned(),
                place: format!("`{name}`"),
            }),
            (None, None) => {
                let variable = variable(name);
                self.problems.push(format!(
                    "`{name}` is missing: set ${variable}, or `{name}` in the file"
                ));
                None
            }
        }
    }

    pub(super) fn secret(&mut self, name: &str) -> Option<SecretString> {
        let file_name = format!("{name}_file");
        let Some(file) = self.values.remove(&file_name) else {
            return self
                .text(name)
                .map(|found| SecretString::from(found.text.trim().to_owned()));
        };
        if let Some(plain) = self.values.remove(name) {
            self.problems.push(format!(
                "{} and {} are both given: only one may be",
                plain.place, file.place
            ));
            return None;
        }
        match fs::read_to_string(&file.text) {
            Ok(text) if text.trim().is_empty() => {
                self.problems
                    .push(format!("{}: the file {} is empty", file.place, file.text));
                None
            }
            Ok(text) => Some(SecretString::from(text.trim().to_owned())),
            Err(error) => {
                self.problems.push(format!(
                    "{}: the file {} cannot be read: {error}",
                    file.place, file.text
                ));
                None
            }
        }
    }

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, wanted: &str) -> Option<T> {
        let found = self.text(name)?;
        let value = found.text.trim().parse().ok();
        if value.is_none() {
            self.problems.push(format!(
                "{} is `{}`, and must be {wanted}",
                found.place, found.text
            ));
        }
        value
    }

    pub(super) fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        let found = self.text(name)?;
        let value = found
            .text
            .trim()
            .parse()
            .ok()
            .filter(|value| range.contains(value));
        if value.is_none() {
            self.problems.push(format!(
                "{} is `{}`, and must be {wanted}",
                found.place, found.text
            ));
        }
        value
    }

    pub(super) fn duration(&mut self, name: &str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let found = self.text(name)?;
        let value = parse_duration(found.text.trim()).filter(|value| range.contains(value));
        if value.is_none() {
            let (from, to) = (range.start(), range.end());
            let wanted = format!("a time from {from:?} to {to:?}, like `500ms`, `15s` or `2m`");
            self.problems.push(format!(
                "{} is `{}`, and must be {wanted}",
                found.place, found.text
            ));
        }
        value
    }

    /// Notes a problem unless `fits`.
    pub(super) fn require(&mut self, fits: bool, name: &str, problem: &str) {
        if !fits {
            self.problems.push(format!("`{name}` {problem}"));
        }
    }
}

/// `500ms`, `15s`, `2m`.
fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        _ => None,
    }
}

fn is_known(name: &str) -> bool {
    let by_file = name.strip_suffix("_file");
    SETTINGS
        .iter()
        .any(|setting| setting.name == name || (setting.secret && Some(setting.name) == by_file))
}

/// Names the setting that was probably meant: one with letters left out, or with some too many.
fn suggestion(name: &str) -> String {
    let within = |short: &str, long: &str| {
        let mut long = long.chars();
        short.len() >= 4 && short.chars().all(|wanted| long.any(|found| found == wanted))
    };
    let close = SETTINGS
        .iter()
        .find(|setting| within(name, setting.name) || within(setting.name, name));
    close
        .map(|setting| format!("; did you mean `{}`?", setting.name))
        .unwrap_or_default()
}
