//! The start-up settings that a data folder stands for, on top of the environment.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};

use super::folder::{ClientEnv, Folder, FolderError};
use crate::app::postgres;
use crate::config::Config;

/// The environment with what the folder adds to it.
#[derive(Debug, Clone)]
pub struct Settings {
    variables: BTreeMap<String, String>,
}

impl Settings {
    /// The environment as it is.
    #[must_use]
    pub fn of(environment: &BTreeMap<String, String>) -> Self {
        Self {
            variables: environment.clone(),
        }
    }

    /// Whether a database is given, so that no private one is to be started.
    #[must_use]
    pub fn has_database(&self) -> bool {
        ["DATABASE_URL", "DATABASE_URL_FILE"]
            .iter()
            .any(|name| self.variables.contains_key(*name))
    }

    /// This database.
    pub fn use_database(&mut self, url: &SecretString) {
        self.set("DATABASE_URL", url.expose_secret());
    }

    /// The lab's cloud, asked more often than a real one, as it answers on loopback.
    pub fn use_cloud_of_lab(&mut self, cloud: &ClientEnv) {
        self.set("CKSD_CLOUD_ENDPOINT", &cloud.endpoint);
        self.set("CKSD_CLOUD_API_KEY", &cloud.key);
        self.set("CKSD_CLOUD_SECRET_KEY", cloud.secret.expose_secret());
        self.set("CKSD_CLOUD_POLL_INTERVAL", "100ms");
    }

    /// The folder's key for secrets at rest, unless one is given.
    pub fn use_master_key(&mut self, folder: &Folder) -> Result<(), FolderError> {
        let given = ["CKSD_MASTER_KEY", "CKSD_MASTER_KEY_FILE"];
        if !given.iter().any(|name| self.variables.contains_key(*name)) {
            let key = STANDARD.encode(folder.master_key()?.expose_secret());
            self.set("CKSD_MASTER_KEY", &key);
        }
        Ok(())
    }

    /// Sets one variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// The configuration that comes of it.
    pub fn load(&self, file: Option<&Path>) -> anyhow::Result<Config> {
        Ok(Config::load(file, &self.variables)?)
    }
}

/// The configuration of the `cksd up` that runs in `data`, for commands beside it.
///
/// # Errors
/// Nothing runs there, or what is there cannot be used.
pub fn of_running(
    data: &Path,
    file: Option<&Path>,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Config> {
    let folder = Folder::existing(data)?;
    let mut settings = Settings::of(environment);
    if !settings.has_database() {
        let url = postgres::url_of_living(folder.path())?;
        let url =
            url.with_context(|| format!("no `cksd up` runs in `{}`: start it first", data.display()))?;
        settings.use_database(&url);
    }
    if let Some(cloud) = ClientEnv::read(&folder.lab_env())? {
        settings.use_cloud_of_lab(&cloud);
    }
    settings.use_master_key(&folder)?;
    settings.load(file)
}
