//! User data: the part of cloud-init that a cluster's nodes are made with.
//!
//! `#cloud-config` with `ssh_keys`, `ssh_authorized_keys`, `users` (their keys only), `write_files` and `runcmd`,
//! and `#!` scripts. Everything else is passed over by name, so that the journal says what was not done.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde_yaml_ng::Value;

/// What the user data asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UserData {
    /// The private host key.
    pub(super) host_key: Option<String>,
    /// Keys that may log in as the login user.
    pub(super) authorized_keys: Vec<String>,
    /// Files to write.
    pub(super) files: Vec<FileToWrite>,
    /// What to run, in order, as root.
    pub(super) commands: Vec<Run>,
    /// What is passed over.
    pub(super) ignored: Vec<String>,
}

/// A file to write.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileToWrite {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
    pub(super) append: bool,
}

/// One line of `runcmd`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// A program with its arguments.
    Words(Vec<String>),
    /// A text for the shell.
    Text(String),
}

#[derive(Deserialize)]
struct CloudConfig {
    #[serde(default)]
    ssh_keys: BTreeMap<String, String>,
    #[serde(default)]
    ssh_authorized_keys: Vec<String>,
    #[serde(default)]
    users: Vec<Value>,
    #[serde(default)]
    write_files: Vec<WriteFile>,
    #[serde(default)]
    runcmd: Vec<Value>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct WriteFile {
    path: String,
    #[serde(default)]
    content: String,
    #[serde(default)]
    encoding: Option<String>,
    #[serde(default)]
    permissions: Option<Value>,
    #[serde(default)]
    append: bool,
}

/// Reads user data, gzipped or not. `login` is the user whose keys count.
pub(super) fn read(data: &[u8], login: &str) -> Result<UserData, String> {
    let data = if data.starts_with(&[0x1f, 0x8b]) {
        gunzip(data)?
    } else {
        data.to_vec()
    };
    let text = String::from_utf8(data).map_err(|_| "user data is neither text nor gzip".to_owned())?;
    if text.starts_with("#!") {
        return Ok(UserData {
            commands: vec![Run::Text(text)],
            ..UserData::default()
        });
    }
    if !text.starts_with("#cloud-config") {
        let first = text.lines().next().unwrap_or_default();
        return Err(format!(
            "user data begins with {first:?}; this lab knows #cloud-config and #! scripts"
        ));
    }
    let config: Option<CloudConfig> =
        serde_yaml_ng::from_str(&text).map_err(|error| format!("user data: {error}"))?;
    config.map_or_else(|| Ok(UserData::default()), |config| digest(config, login))
}

fn digest(config: CloudConfig, login: &str) -> Result<UserData, String> {
    let mut out = UserData {
        authorized_keys: config.ssh_authorized_keys,
        ignored: config.rest.into_keys().collect(),
        ..UserData::default()
    };
    for (kind, key) in config.ssh_keys {
        match kind.as_str() {
            "ed25519_private" => out.host_key = Some(key),
            // It is derived from the private one.
            "ed25519_public" => {}
            other => out.ignored.push(format!("ssh_keys.{other}")),
        }
    }
    for user in config.users {
        if user.get("name").and_then(Value::as_str) == Some(login) {
            let keys = user
                .get("ssh_authorized_keys")
                .or_else(|| user.get("ssh-authorized-keys"));
            let keys = keys.and_then(Value::as_sequence).into_iter().flatten();
            out.authorized_keys
                .extend(keys.filter_map(Value::as_str).map(ToOwned::to_owned));
        } else if user.as_str() != Some("default") {
            out.ignored.push("users (other than the login user)".to_owned());
        }
    }
    for file in config.write_files {
        out.files.push(FileToWrite {
            content: decode(&file)?,
            mode: mode(&file)?,
            append: file.append,
            path: file.path,
        });
    }
    for item in config.runcmd {
        out.commands.push(command(&item)?);
    }
    Ok(out)
}

fn command(item: &Value) -> Result<Run, String> {
    match item {
        Value::String(text) => Ok(Run::Text(text.clone())),
        Value::Sequence(words) => words
            .iter()
            .map(|word| match word {
                Value::String(text) => Ok(text.clone()),
                Value::Number(number) => Ok(number.to_string()),
                Value::Bool(flag) => Ok(flag.to_string()),
                other => Err(format!("runcmd: {other:?} is not a word")),
            })
            .collect::<Result<_, _>>()
            .map(Run::Words),
        other => Err(format!("runcmd: {other:?} is neither a text nor a list of words")),
    }
}

fn decode(file: &WriteFile) -> Result<Vec<u8>, String> {
    let bad = |what: String| format!("write_files {}: {what}", file.path);
    let unbase = || {
        let text: String = file.content.split_whitespace().collect();
        STANDARD.decode(text).map_err(|error| bad(error.to_string()))
    };
    match file.encoding.as_deref().unwrap_or("text/plain") {
        "text/plain" => Ok(file.content.clone().into_bytes()),
        "b64" | "base64" => unbase(),
        // YAML carries plain bytes as `!!binary`, which arrives here as base64 too.
        "gz+b64" | "gz+base64" | "gzip+b64" | "gzip+base64" | "gz" | "gzip" => {
            gunzip(&unbase()?).map_err(bad)
        }
        other => Err(bad(format!("the encoding {other} is not known"))),
    }
}

/// The permissions: octal digits in a string, or a number that YAML read from them.
fn mode(file: &WriteFile) -> Result<u32, String> {
    match &file.permissions {
        None => Some(0o644),
        Some(Value::String(text)) => u32::from_str_radix(text.trim_start_matches("0o"), 8).ok(),
        Some(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Some(_) => None,
    }
    .map_or_else(
        || Err(format!("write_files {}: permissions are octal digits", file.path)),
        Ok,
    )
}

fn gunzip(data: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    MultiGzDecoder::new(data)
        .read_to_end(&mut out)
        .map_err(|error| format!("not gzip: {error}"))?;
    Ok(out)
}
