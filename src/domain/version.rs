//! Kubernetes versions and how they compare (`behaviour.md` 9.6): exactly and numerically.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A Kubernetes version. Build metadata is dropped when it is read, so equality is exact: `1.28.1` is not
/// `1.28.10`, and a pre-release is not its release.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubeVersion(semver::Version);

/// A text that is no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no Kubernetes version: {why}")]
pub struct InvalidVersion {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// How a target stands to a version that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The same version.
    Same,
    /// Newer, same minor, or the next one.
    Upgrade,
    /// Older.
    Downgrade,
    /// Another major version.
    OtherMajor,
    /// More than one minor version ahead.
    TooFar,
}

impl KubeVersion {
    /// Major number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.0.major
    }

    /// Minor number.
    #[must_use]
    pub fn minor(&self) -> u64 {
        self.0.minor
    }

    /// How the step from this version to `target` is to be called.
    #[must_use]
    pub fn to(&self, target: &KubeVersion) -> Move {
        if target == self {
            Move::Same
        } else if target.0.major != self.0.major {
            Move::OtherMajor
        } else if target < self {
            Move::Downgrade
        } else if target.0.minor > self.0.minor + 1 {
            Move::TooFar
        } else {
            Move::Upgrade
        }
    }
}

impl FromStr for KubeVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        let bare = bare.strip_prefix('v').unwrap_or(bare);
        let mut version = semver::Version::parse(bare).map_err(|error| InvalidVersion {
            text: text.to_owned(),
            why: error.to_string(),
        })?;
        version.build = semver::BuildMetadata::EMPTY;
        Ok(Self(version))
    }
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for KubeVersion {
    type Error = InvalidVersion;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<KubeVersion> for String {
    fn from(version: KubeVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KubeVersion {
        text.parse().unwrap()
    }

    #[test]
    fn dressing_is_taken_off() {
        for text in [
            "1.33.1",
            "v1.33.1",
            " v1.33.1\n",
            "\"v1.33.1\"",
            "'1.33.1'",
            "v1.33.1+k3s1",
            "1.33.1+build.5",
        ] {
            assert_eq!(version(text), version("1.33.1"), "{text}");
            assert_eq!(version(text).to_string(), "1.33.1", "{text}");
        }
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_exactly() {
        assert_ne!(version("1.28.1"), version("1.28.10"));
        assert!(version("1.28.9") < version("1.28.10"));
        assert!(version("1.9.0") < version("1.10.0"));
        assert_ne!(version("1.33.0-rc.1"), version("1.33.0"));
        assert!(version("1.33.0-rc.1") < version("1.33.0"));
        assert!(version("1.33.0-rc.2") < version("1.33.0-rc.10"));
    }

    #[test]
    fn what_is_no_version_is_refused_with_the_text() {
        for text in [
            "",
            "1.33",
            "v",
            "vv1.33.1",
            "1.33.1.2",
            "latest",
            "W0101 warning: v1.33.1",
            "1.033.1",
        ] {
            let error = text.parse::<KubeVersion>().unwrap_err();
            assert_eq!(error.text, text);
        }
    }

    #[test]
    fn moves_are_named() {
        let here = version("1.32.5");
        assert_eq!(here.to(&version("v1.32.5+a")), Move::Same);
        assert_eq!(here.to(&version("1.32.6")), Move::Upgrade);
        assert_eq!(here.to(&version("1.33.13")), Move::Upgrade);
        assert_eq!(here.to(&version("1.34.0")), Move::TooFar);
        assert_eq!(here.to(&version("1.32.4")), Move::Downgrade);
        assert_eq!(here.to(&version("1.31.9")), Move::Downgrade);
        assert_eq!(here.to(&version("2.32.5")), Move::OtherMajor);
    }
}
