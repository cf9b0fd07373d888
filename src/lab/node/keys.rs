//! A node's host key and the keys that may log in, kept as files where OpenSSH keeps them.

use std::io;
use std::path::{Path, PathBuf};

use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};

use super::LabNodeError;
use super::shims::replace;

/// Where the host key lies, in the node's own paths.
const HOST_KEY: &str = "etc/ssh/ssh_host_ed25519_key";

/// The host key of a node: `wanted` (user data of the first boot), else the stored one, else `given`, else a
/// new one. It is stored.
pub(super) fn host_key(
    root: &Path,
    wanted: Option<&str>,
    given: Option<&str>,
) -> Result<PrivateKey, LabNodeError> {
    let path = root.join(HOST_KEY);
    let stored = std::fs::read_to_string(&path).ok();
    let key = match wanted.or(stored.as_deref()).or(given) {
        Some(text) => PrivateKey::from_openssh(text.trim()).map_err(|error| LabNodeError::HostKey {
            reason: error.to_string(),
        })?,
        None => PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).map_err(|error| {
            LabNodeError::HostKey {
                reason: error.to_string(),
            }
        })?,
    };
    let private = key
        .to_openssh(LineEnding::LF)
        .map_err(|error| LabNodeError::HostKey {
            reason: error.to_string(),
        })?;
    let kept = replace(&path, &private, 0o600).and_then(|()| {
        replace(
            &root.join(format!("{HOST_KEY}.pub")),
            &format!("{}\n", public(&key)),
            0o644,
        )
    });
    kept.map_err(|source| LabNodeError::Files {
        what: "store the host key",
        source,
    })?;
    Ok(key)
}

/// The OpenSSH public form of a key, without a comment.
pub(super) fn public(key: &PrivateKey) -> String {
    let text = key.public_key().to_openssh().unwrap_or_default();
    let mut words = text.split(' ');
    match (words.next(), words.next()) {
        (Some(kind), Some(data)) => format!("{kind} {data}"),
        _ => text,
    }
}

/// The file with the keys that may log in.
fn authorized_keys(root: &Path, user: &str) -> PathBuf {
    root.join("home").join(user).join(".ssh/authorized_keys")
}

/// Adds keys to those that may log in; a key that is there already is not added again.
pub(super) fn authorize(root: &Path, user: &str, keys: &[String]) -> io::Result<()> {
    let path = authorized_keys(root, user);
    let mut text = std::fs::read_to_string(&path).unwrap_or_default();
    for key in keys {
        let key = key.trim();
        if !key.is_empty() && !text.lines().any(|line| line == key) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(key);
            text.push('\n');
        }
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    replace(&path, &text, 0o600)
}

/// Whether a key may log in. The file is read anew at each login, as sshd does.
pub(super) fn may_log_in(root: &Path, user: &str, key: &PublicKey) -> bool {
    std::fs::read_to_string(authorized_keys(root, user))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| PublicKey::from_openssh(line.trim()).ok())
        .any(|known| known.key_data() == key.key_data())
}
