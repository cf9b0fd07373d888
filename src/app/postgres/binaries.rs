//! Finds the server's binaries, in the order that people expect: what is configured, what lies beside us, what
//! is on the PATH, what the distribution installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PostgresError;
use super::place::{Owner, can_use};

/// The oldest version that is used.
pub const OLDEST_MAJOR: u32 = 14;

/// A folder with `postgres` and `initdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The folder.
    pub folder: PathBuf,
    /// The major version.
    pub major: u32,
}

impl Binaries {
    /// The first that fit, of version `wanted` if one is wanted, and that `owner` may run.
    pub(super) fn find(
        environment: &BTreeMap<String, String>,
        wanted: Option<u32>,
        owner: Option<&Owner>,
    ) -> Result<Self, PostgresError> {
        let candidates = candidates(environment);
        let usable = candidates
            .iter()
            .filter(|folder| owner.is_none_or(|owner| can_use(folder, owner)));
        let fits = |found: &Self| wanted.map_or(found.major >= OLDEST_MAJOR, |wanted| found.major == wanted);
        usable
            .filter_map(|folder| Self::at(folder))
            .find(fits)
            .ok_or_else(|| {
                let looked: Vec<String> = candidates
                    .iter()
                    .map(|folder| folder.display().to_string())
                    .collect();
                PostgresError::NoBinaries {
                    looked: looked.join(", "),
                    install: install_command(),
                }
            })
    }

    /// The binaries in `folder`, if they are whole.
    fn at(folder: &Path) -> Option<Self> {
        if !folder.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(folder.join("postgres"))
            .arg("--version")
            .output()
            .ok()?;
        let major = major_of(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self {
            folder: folder.to_owned(),
            major,
        })
    }
}

/// `postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)` is 15.
pub(super) fn major_of(text: &str) -> Option<u32> {
    let version = text.split(") ").nth(1)?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Every folder in which a server may lie, in the order in which they are asked, each once.
pub(super) fn candidates(environment: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = environment
        .get("CKSD_POSTGRES_BIN")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| exe.parent().map(Path::to_owned));
    found.extend(beside.iter().map(|folder| folder.join("postgres/bin")));
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        found.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let path = environment.get("PATH").map(String::as_str).unwrap_or_default();
    let on_path = std::env::split_paths(path).map(|folder| folder.join("postgres"));
    found.extend(on_path.filter_map(|file| file.canonicalize().ok()?.parent().map(Path::to_owned)));
    found.extend(versions("/usr/lib/postgresql", ""));
    found.extend(versions("/usr", "pgsql-"));
    found.push(PathBuf::from("/usr/bin"));
    for homebrew in [
        "/opt/homebrew/opt",
        "/usr/local/opt",
        "/home/linuxbrew/.linuxbrew/opt",
    ] {
        found.extend(versions(homebrew, "postgresql@"));
    }
    // Where `scripts/setup` puts them: beside the folder of the build's profile.
    let setup = beside.iter().filter_map(|folder| folder.parent());
    found.extend(setup.map(|folder| folder.join("tools/postgres/bin")));
    let mut seen = Vec::new();
    found.retain(|folder| {
        let is_new = folder.is_dir() && !seen.contains(folder);
        seen.push(folder.clone());
        is_new
    });
    found
}

/// `FOLDER/PREFIX<version>/bin`, the newest first.
fn versions(folder: &str, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name.strip_prefix(prefix)?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

/// How a server is installed on this system.
fn install_command() -> String {
    let has = |program: &str| {
        ["/usr/bin", "/opt/homebrew/bin"]
            .iter()
            .any(|at| Path::new(at).join(program).exists())
    };
    let command = if has("apt-get") {
        "sudo apt-get install postgresql"
    } else if has("dnf") {
        "sudo dnf install postgresql-server"
    } else if has("brew") {
        "brew install postgresql"
    } else {
        "install it, and name its folder in CKSD_POSTGRES_BIN"
    };
    format!("{command}, or name a database of yours in DATABASE_URL")
}
