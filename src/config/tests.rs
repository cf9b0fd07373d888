//! What is accepted, what is refused, and that all of it is said at once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::ExposeSecret;

use super::{Config, SETTINGS};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn complete() -> BTreeMap<String, String> {
    environment(&[
        ("DATABASE_URL", "postgres://cksd@localhost/cksd"),
        ("CKSD_CLOUD_ENDPOINT", "https://cloud.example.org/client/api"),
        ("CKSD_CLOUD_API_KEY", "api"),
        ("CKSD_CLOUD_SECRET_KEY", "secret"),
        ("CKSD_MASTER_KEY", KEY),
        ("PATH", "/usr/bin"),
    ])
}

/// A file in a folder of its own, removed at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("cksd-config-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.parent().unwrap()).ok();
    }
}

#[test]
fn the_environment_alone_is_enough_and_the_rest_has_defaults() {
    let config = Config::load(None, &complete()).unwrap();
    assert_eq!(config.cloud.endpoint, "https://cloud.example.org/client/api");
    assert_eq!(config.cloud.secret_key.expose_secret(), "secret");
    assert_eq!(config.master_key.expose_secret().len(), 32);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(
        (config.node_ssh_port, config.workers, config.database_connections),
        (22, 16, 20)
    );
    assert_eq!(
        (config.lease, config.grace),
        (Duration::from_secs(15), Duration::from_secs(10))
    );
    assert_eq!(config.cloud.poll_interval, Duration::from_secs(2));
}

#[test]
fn every_default_is_accepted_and_every_required_setting_is_asked_for() {
    let problems = Config::load(None, &BTreeMap::new()).unwrap_err().0;
    let required: Vec<&str> = SETTINGS
        .iter()
        .filter(|s| s.default.is_none())
        .map(|s| s.name)
        .collect();
    assert_eq!(problems.len(), required.len(), "{problems:#?}");
    for name in required {
        assert!(
            problems
                .iter()
                .any(|problem| problem.starts_with(&format!("`{name}` is missing: set $")))
        );
    }
}

#[test]
fn all_problems_are_said_at_once_and_no_secret_is() {
    let mut variables = complete();
    variables.extend(environment(&[
        ("DATABASE_URL", "mysql://hunter2"),
        ("CKSD_CLOUD_ENDPOINT", "cloud.example.org"),
        ("CKSD_MASTER_KEY", "hunter2"),
        ("CKSD_LISTEN", "8080"),
        ("CKSD_LEASE", "0s"),
        ("CKSD_WORKERS", "many"),
        ("CKSD_CLOUD_ENPOINT", "x"),
        ("CKSD_GRACE", ""),
    ]));
    let error = Config::load(None, &variables).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the configuration has 8 problem(s):\n\
         - $CKSD_CLOUD_ENPOINT is no setting; did you mean `cloud_endpoint`?\n\
         - `database_url` must begin with `postgres://`\n\
         - `cloud_endpoint` must begin with `http://` or `https://`\n\
         - `master_key` must be 32 bytes in base64: openssl rand -base64 32\n\
         - $CKSD_LISTEN is `8080`, and must be an address with a port, like `0.0.0.0:8080`\n\
         - $CKSD_LEASE is `0s`, and must be a time from 1s to 300s, like `500ms`, `15s` or `2m`\n\
         - $CKSD_WORKERS is `many`, and must be a number from 1 to 1000\n\
         - $CKSD_GRACE is empty"
    );
}

#[test]
fn a_secret_may_be_named_by_a_file_but_not_given_twice() {
    let file = TempFile::new("secret", "from the file\n");
    let mut environment = complete();
    environment.remove("CKSD_CLOUD_SECRET_KEY");
    environment.insert(
        "CKSD_CLOUD_SECRET_KEY_FILE".to_owned(),
        file.path().display().to_string(),
    );
    let config = Config::load(None, &environment).unwrap();
    assert_eq!(config.cloud.secret_key.expose_secret(), "from the file");

    environment.insert("CKSD_CLOUD_SECRET_KEY".to_owned(), "secret".to_owned());
    let problems = Config::load(None, &environment).unwrap_err().0;
    assert_eq!(
        problems,
        ["$CKSD_CLOUD_SECRET_KEY and $CKSD_CLOUD_SECRET_KEY_FILE are both given: only one may be"]
    );

    environment.remove("CKSD_CLOUD_SECRET_KEY");
    environment.insert(
        "CKSD_CLOUD_SECRET_KEY_FILE".to_owned(),
        "/no/such/file".to_owned(),
    );
    let problems = Config::load(None, &environment).unwrap_err().0;
    assert!(problems[0].starts_with("$CKSD_CLOUD_SECRET_KEY_FILE: the file /no/such/file cannot be read: "));
}

#[test]
fn the_environment_wins_over_the_file_in_either_form() {
    let file = TempFile::new(
        "cksd.toml",
        "listen = \"0.0.0.0:9000\"\nworkers = 3\ncloud_secret_key_file = \"/no/such/file\"\n",
    );
    let mut environment = complete();
    environment.insert("CKSD_LISTEN".to_owned(), "127.0.0.2:1".to_owned());
    let config = Config::load(Some(file.path()), &environment).unwrap();
    assert_eq!(
        (config.listen.to_string().as_str(), config.workers),
        ("127.0.0.2:1", 3)
    );
    assert_eq!(config.cloud.secret_key.expose_secret(), "secret");
}

#[test]
fn a_file_is_strict() {
    let file = TempFile::new(
        "strict.toml",
        "listn = \"x\"\nworkers = [1]\nlisten_file = \"x\"\n",
    );
    let shown = file.path().display();
    let problems = Config::load(Some(file.path()), &complete()).unwrap_err().0;
    assert_eq!(
        problems,
        [
            format!("`listen_file` in {shown} is no setting; did you mean `listen`?"),
            format!("`listn` in {shown} is no setting; did you mean `listen`?"),
            format!("`workers` in {shown} must be a text or a number, not array"),
        ]
    );

    let broken = TempFile::new("broken.toml", "master_key = hunter2");
    let problems = Config::load(Some(broken.path()), &complete()).unwrap_err().0;
    assert!(
        problems[0].contains("is no TOML") && !problems[0].contains("hunter2"),
        "{problems:?}"
    );
    let missing = Config::load(Some(Path::new("/no/such.toml")), &complete())
        .unwrap_err()
        .0;
    assert!(missing[0].starts_with("/no/such.toml: cannot be read: "));
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let shown = format!("{:?}", Config::load(None, &complete()).unwrap());
    assert!(
        !shown.contains("secret\"") && !shown.contains("postgres://"),
        "{shown}"
    );
}
