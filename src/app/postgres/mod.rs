//! A private Postgres for `cksd up`: found on the system, made and run in the data folder, attached to when it
//! still lives.
//!
//! Layout: `BASE/<major>/` with `data`, `socket`, `log` and `password`. BASE is `DIR/pg`; where the user that
//! must run Postgres for root cannot enter DIR, it is a folder below `/var/lib/cksd`, and `DIR/pg.place` names
//! it. The server listens on a socket in its folder only; if the path is too long for a socket, on loopback and
//! a random port. Either way it asks for the password. fsync stays on.
//!
//! The server is no child that dies with us: after a `kill -9` of the service it lives on, and the next start
//! finds it by `postmaster.pid` and attaches to it.
//!
//! What this must not know: what is stored in the database.

mod binaries;
mod error;
mod place;
mod postmaster;
mod server;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

pub use binaries::{Binaries, OLDEST_MAJOR};
pub use error::PostgresError;
pub use place::{Owner, Place};
use postmaster::Postmaster;
use server::Server;

/// The database of the service on a private server.
const DATABASE: &str = "cksd";

/// Longest path of a socket folder: the system allows 107 bytes for the socket, and the server adds its name.
const LONGEST_SOCKET_FOLDER: usize = 90;

/// How long a start may take. A server that replays its journal after a crash needs some.
const START_LIMIT: Duration = Duration::from_mins(2);

/// How long a stop may take before the server is told to drop everything.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How often a start or a stop is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A private server that runs.
#[derive(Debug)]
pub struct PrivatePostgres {
    url: SecretString,
    folder: PathBuf,
    attached: bool,
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The data folder of `cksd up`.
    pub data: &'a Path,
    /// The environment of the process: `PATH` and `CKSD_POSTGRES_BIN`.
    pub environment: &'a BTreeMap<String, String>,
}

/// Finds a living server of this data folder and attaches to it, or makes and starts one.
///
/// # Errors
/// [`PostgresError`], with what to do.
pub async fn start(options: &Options<'_>) -> Result<PrivatePostgres, PostgresError> {
    let owner = Owner::of_this_process()?;
    let place = Place::choose(options.data, owner.as_ref())?;
    place.make()?;
    // Two starts at once: the second waits here, then finds the server of the first.
    let guard = place.lock().await?;
    let folder = place.version_folder(options.environment, owner.as_ref())?;
    let server = Server {
        binaries: folder.binaries,
        folder: folder.path,
        owner,
    };
    let result = server.attach_or_start().await;
    drop(guard);
    result
}

/// Stops the server of a data folder, if one lives: open transactions are rolled back, the data is written.
///
/// # Errors
/// [`PostgresError`] when the folder cannot be found.
pub async fn stop(data: &Path) -> Result<(), PostgresError> {
    let owner = Owner::of_this_process()?;
    for folder in Place::choose(data, owner.as_ref())?.version_folders() {
        if let Some(postmaster) = Postmaster::living(&folder.join("data")) {
            postmaster.stop(STOP_LIMIT).await;
        }
    }
    Ok(())
}

/// Stops the server of a data folder, if one lives, and removes its data.
///
/// # Errors
/// [`PostgresError::Io`] when something cannot be removed.
pub async fn remove(data: &Path) -> Result<(), PostgresError> {
    stop(data).await?;
    Place::choose(data, Owner::of_this_process()?.as_ref())?.remove()
}

/// The URL of the service's database on the living server of a data folder; none when no server lives.
///
/// # Errors
/// [`PostgresError`] when the folder cannot be found or its password not be read.
pub fn url_of_living(data: &Path) -> Result<Option<SecretString>, PostgresError> {
    let owner = Owner::of_this_process()?;
    for folder in Place::choose(data, owner.as_ref())?.version_folders() {
        let living = Postmaster::living(&folder.join("data"));
        if let Some(address) = living.and_then(|postmaster| postmaster.address()) {
            let path = folder.join("password");
            let password = fs::read_to_string(&path);
            let password = password.map_err(PostgresError::io(format!("reading `{}`", path.display())))?;
            return Ok(Some(address.url(&SecretString::from(password.trim().to_owned()))));
        }
    }
    Ok(None)
}

impl PrivatePostgres {
    /// The URL of the service's database.
    #[must_use]
    pub fn url(&self) -> &SecretString {
        &self.url
    }

    /// The folder in which it keeps its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it lived before we came.
    #[must_use]
    pub fn attached(&self) -> bool {
        self.attached
    }
}

/// Where a living server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    socket_folder: Option<PathBuf>,
    port: u16,
}

impl Address {
    fn url(&self, password: &SecretString) -> SecretString {
        let (password, port) = (password.expose_secret(), self.port);
        SecretString::from(match &self.socket_folder {
            Some(folder) => {
                let host = utf8_percent_encode(&folder.to_string_lossy(), NON_ALPHANUMERIC).to_string();
                format!("postgres://postgres:{password}@localhost:{port}/{DATABASE}?host={host}")
            }
            None => format!("postgres://postgres:{password}@127.0.0.1:{port}/{DATABASE}"),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a start waits for a process of another program; nothing announces it"
)]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// The lock of a place, held while a server is looked for or started.
type Guard = Flock<fs::File>;

/// Waits for the lock of `path`.
async fn locked(path: &Path) -> Result<Guard, PostgresError> {
    let shown = path.display().to_string();
    let mut file = fs::File::create(path).map_err(PostgresError::io(format!("making `{shown}`")))?;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(guard) => return Ok(guard),
            Err((back, nix::errno::Errno::EWOULDBLOCK)) => file = back,
            Err((_, error)) => return Err(PostgresError::io(format!("locking `{shown}`"))(error.into())),
        }
        pause(LOOK_AGAIN).await;
    }
}
