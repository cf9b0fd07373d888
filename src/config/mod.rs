//! Start-up configuration: typed, strict, all problems at once.
//!
//! Every setting has one name. In the file it stands as it is (`cloud_endpoint = "…"`, TOML), in the environment
//! in capitals after `CKSD_` (`CKSD_CLOUD_ENDPOINT`); the database is `DATABASE_URL`, as everywhere. The
//! environment wins over the file. A secret may be named by a file instead (`x_file`), and only one of both
//! may be given. Settings that change while the service runs are not here but in the database.
//!
//! What this must not know: anything of ours.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use reader::{Reader, Setting};

/// What `serve` and `worker` need to know before they start.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database.
    pub database_url: SecretString,
    /// Connections of the main pool.
    pub database_connections: u32,
    /// The cloud.
    pub cloud: Cloud,
    /// The key for secrets at rest, 32 bytes.
    pub master_key: SecretSlice<u8>,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// The SSH port of nodes on shared and routed networks.
    pub node_ssh_port: u16,
    /// How long a claim of a job holds without a heartbeat.
    pub lease: Duration,
    /// Jobs that this process runs at once.
    pub workers: u32,
    /// How long a process that is told to end waits for its work.
    pub grace: Duration,
}

/// How the cloud is reached.
#[derive(Debug, Clone)]
pub struct Cloud {
    /// The URL of its API, for example `https://cloud.example.org/client/api`.
    pub endpoint: String,
    /// The API key of the service's account.
    pub api_key: SecretString,
    /// The secret key of the service's account.
    pub secret_key: SecretString,
    /// How often a job of the cloud is asked for.
    pub poll_interval: Duration,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} problem(s):", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

/// The settings, their defaults and their meaning, in the order in which `docs/OPERATING.md` shows them.
pub const SETTINGS: &[Setting] = &[
    Setting::secret(
        "database_url",
        "URL of the Postgres database (in the environment: `DATABASE_URL`)",
    ),
    Setting::plain(
        "database_connections",
        Some("20"),
        "connections of the main pool, 2 to 500",
    ),
    Setting::plain(
        "cloud_endpoint",
        None,
        "URL of the cloud's API, `http://` or `https://`",
    ),
    Setting::secret("cloud_api_key", "API key of the service's account in the cloud"),
    Setting::secret("cloud_secret_key", "secret key of the same account"),
    Setting::plain(
        "cloud_poll_interval",
        Some("2s"),
        "how often a job of the cloud is asked for, 50ms to 1m",
    ),
    Setting::secret(
        "master_key",
        "key for secrets at rest: 32 bytes in base64 (`openssl rand -base64 32`)",
    ),
    Setting::plain("listen", Some("127.0.0.1:8080"), "address and port of the API"),
    Setting::plain(
        "node_ssh_port",
        Some("22"),
        "SSH port of nodes on shared and routed networks",
    ),
    Setting::plain(
        "lease",
        Some("15s"),
        "how long a claim of a job holds without a heartbeat, 1s to 5m",
    ),
    Setting::plain(
        "workers",
        Some("16"),
        "jobs that one process runs at once, 1 to 1000",
    ),
    Setting::plain(
        "grace",
        Some("10s"),
        "how long a process that is told to end waits for its work, 0s to 10m",
    ),
];

/// Variables that begin with `CKSD_` and are no settings: read by the command line and by scripts.
const OTHER_VARIABLES: &[&str] = &["CKSD_CONFIG", "CKSD_DATA", "CKSD_LOG_FORMAT", "CKSD_POSTGRES_BIN"];

impl Config {
    /// Reads the file, if one is named, and `environment`.
    ///
    /// # Errors
    /// [`Problems`]: all that is wrong, not only the first.
    pub fn load(file: Option<&Path>, environment: &BTreeMap<String, String>) -> Result<Self, Problems> {
        let mut reader = Reader::new(file, environment);
        let config = Self::read(&mut reader);
        match (config, reader.into_problems()) {
            (Some(config), problems) if problems.is_empty() => Ok(config),
            (_, problems) => Err(Problems(problems)),
        }
    }

    /// Every value is read before any is missed, so that all problems are seen.
    fn read(reader: &mut Reader) -> Option<Self> {
        let database_url = Self::read_database_url(reader);
        let database_connections = reader.number("database_connections", 2..=500);
        let cloud = Cloud::read(reader);
        let master_key = reader.secret("master_key").and_then(|text| {
            let key = STANDARD.decode(text.expose_secret()).unwrap_or_default();
            reader.require(
                key.len() == 32,
                "master_key",
                "must be 32 bytes in base64: openssl rand -base64 32",
            );
            (key.len() == 32).then(|| SecretSlice::from(key))
        });
        let listen = reader.parsed::<SocketAddr>("listen", "an address with a port, like `0.0.0.0:8080`");
        let node_ssh_port = reader.number("node_ssh_port", 1..=65535);
        let lease = reader.duration("lease", Duration::from_secs(1)..=Duration::from_mins(5));
        let workers = reader.number("workers", 1..=1000);
        let grace = reader.duration("grace", Duration::ZERO..=Duration::from_mins(10));
        Some(Self {
            database_url: database_url?,
            database_connections: database_connections?,
            cloud: cloud?,
            master_key: master_key?,
            listen: listen?,
            node_ssh_port: u16::try_from(node_ssh_port?).ok()?,
            lease: lease?,
            workers: workers?,
            grace: grace?,
        })
    }
}

impl Config {
    fn read_database_url(reader: &mut Reader) -> Option<SecretString> {
        let url = reader.secret("database_url");
        if let Some(url) = &url {
            let fits = ["postgres://", "postgresql://"]
                .iter()
                .any(|start| url.expose_secret().starts_with(start));
            reader.require(fits, "database_url", "must begin with `postgres://`");
        }
        url
    }
}

impl Cloud {
    fn read(reader: &mut Reader) -> Option<Self> {
        let endpoint = reader.parsed::<String>("cloud_endpoint", "a URL");
        if let Some(endpoint) = &endpoint {
            let fits = ["http://", "https://"]
                .iter()
                .any(|start| endpoint.starts_with(start));
            reader.require(fits, "cloud_endpoint", "must begin with `http://` or `https://`");
        }
        let (api_key, secret_key) = (reader.secret("cloud_api_key"), reader.secret("cloud_secret_key"));
        let poll = Duration::from_millis(50)..=Duration::from_mins(1);
        let poll_interval = reader.duration("cloud_poll_interval", poll);
        Some(Self {
            endpoint: endpoint?,
            api_key: api_key?,
            secret_key: secret_key?,
            poll_interval: poll_interval?,
        })
    }
}

/// The URL of the database alone, for the commands that need nothing else.
///
/// # Errors
/// [`Problems`] with the file, or with this setting.
pub fn database_url(
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> Result<SecretString, Problems> {
    let mut reader = Reader::new(file, environment);
    let url = Config::read_database_url(&mut reader);
    match (url, reader.into_problems()) {
        (Some(url), problems) if problems.is_empty() => Ok(url),
        (_, problems) => Err(Problems(problems)),
    }
}

/// The environment of this process. Values that are not UTF-8 are left out: no setting has one.
#[must_use]
pub fn environment() -> BTreeMap<String, String> {
    let text = |value: std::ffi::OsString| value.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

/// The address on which a service of one machine listens unless told otherwise.
#[must_use]
pub fn default_listen() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))
}
