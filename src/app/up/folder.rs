//! The data folder of `cksd up`: what lies where, written so that nobody else can read it and no reader sees
//! half a file.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::fcntl::{Flock, FlockArg};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};

/// A data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
}

/// The right to work in a data folder, until it is dropped.
#[derive(Debug)]
pub struct Held {
    _lock: Flock<fs::File>,
}

/// Endpoint and keys, as `cs` and other clients read them from the environment.
#[derive(Debug, Clone)]
pub struct ClientEnv {
    /// `CLOUDSTACK_ENDPOINT`.
    pub endpoint: String,
    /// `CLOUDSTACK_KEY`.
    pub key: String,
    /// `CLOUDSTACK_SECRET`.
    pub secret: SecretString,
}

/// What is wrong with a data folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Somebody works in it.
    #[error("another `cksd up` runs on `{0}`: stop it, or choose another folder with --data")]
    Taken(String),
    /// A file or folder.
    #[error("{what}: {source}")]
    Io {
        /// What was done to what.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The folder holds another world.
    #[error("`{folder}` holds the world of `{recorded}`, not of `{wanted}`: leave --lab out, or add --fresh")]
    OtherWorld {
        /// The folder.
        folder: String,
        /// Its scenario.
        recorded: String,
        /// The one that was asked for.
        wanted: String,
    },
    /// A file of ours that somebody else has changed.
    #[error("`{path}` is not as it was written: {problem}")]
    Changed {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
}

impl FolderError {
    fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let what = format!("{what} `{}`", path.display());
        move |source| Self::Io { what, source }
    }
}

impl Folder {
    /// Makes the folder if need be. Others may pass through it, as the user of the private Postgres must; every
    /// file with a secret is its owner's alone.
    pub fn make(path: &Path) -> Result<Self, FolderError> {
        fs::create_dir_all(path).map_err(FolderError::io("making", path))?;
        let path = path.canonicalize().map_err(FolderError::io("finding", path))?;
        Ok(Self { path })
    }

    /// The folder, which must be there.
    pub fn existing(path: &Path) -> Result<Self, FolderError> {
        let path = path.canonicalize().map_err(FolderError::io("finding", path))?;
        Ok(Self { path })
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where clients find the service.
    #[must_use]
    pub fn client_env(&self) -> PathBuf {
        self.path.join("client.env")
    }

    /// Where clients find the lab's cloud.
    #[must_use]
    pub fn lab_env(&self) -> PathBuf {
        self.path.join("lab.env")
    }

    /// The lab's own folder.
    #[must_use]
    pub fn lab(&self) -> PathBuf {
        self.path.join("lab")
    }

    /// Which process the lab is.
    #[must_use]
    pub fn lab_process(&self) -> PathBuf {
        self.path.join("lab.process")
    }

    /// Takes the right to work in it. It ends with the process, however that ends.
    pub fn hold(&self) -> Result<Held, FolderError> {
        let path = self.path.join("up.lock");
        let file = fs::File::create(&path).map_err(FolderError::io("making", &path))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Held { _lock: lock }),
            Err((_, nix::errno::Errno::EWOULDBLOCK)) => {
                Err(FolderError::Taken(self.path.display().to_string()))
            }
            Err((_, error)) => Err(FolderError::io("locking", &path)(error.into())),
        }
    }

    /// The scenario of the world here: the recorded one, or `wanted`, which is recorded. None: no lab.
    ///
    /// # Errors
    /// [`FolderError::OtherWorld`] when another one is recorded.
    pub fn scenario(&self, wanted: Option<&str>) -> Result<Option<String>, FolderError> {
        let path = self.path.join("scenario");
        let recorded = match fs::read_to_string(&path) {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(FolderError::io("reading", &path)(error)),
        };
        match (recorded, wanted) {
            (Some(recorded), Some(wanted)) if recorded != wanted => Err(FolderError::OtherWorld {
                folder: self.path.display().to_string(),
                recorded,
                wanted: wanted.to_owned(),
            }),
            (Some(recorded), _) => Ok(Some(recorded)),
            (None, None) => Ok(None),
            (None, Some(wanted)) => {
                write_private(&path, wanted).map_err(FolderError::io("writing", &path))?;
                Ok(Some(wanted.to_owned()))
            }
        }
    }

    /// The key for secrets at rest: made once.
    pub fn master_key(&self) -> Result<SecretSlice<u8>, FolderError> {
        let path = self.path.join("master.key");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = STANDARD.encode(rand::random::<[u8; 32]>());
                write_private(&path, &text).map_err(FolderError::io("writing", &path))?;
                text
            }
            Err(error) => return Err(FolderError::io("reading", &path)(error)),
        };
        match STANDARD.decode(text.trim()) {
            Ok(key) if key.len() == 32 => Ok(SecretSlice::from(key)),
            _ => Err(FolderError::Changed {
                path: path.display().to_string(),
                problem: "it must hold 32 bytes in base64; without them the stored secrets cannot be read"
                    .to_owned(),
            }),
        }
    }

    /// Removes what belongs to a world and its database, both together; whatever else lies here stays.
    pub fn clear(&self) -> Result<(), FolderError> {
        for name in [
            "client.env",
            "lab.env",
            "lab.process",
            "master.key",
            "pg.place",
            "scenario",
        ] {
            let path = self.path.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FolderError::io("removing", &path)(error));
                }
                _ => {}
            }
        }
        let lab = self.lab();
        match fs::remove_dir_all(&lab) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FolderError::io("removing", &lab)(error))
            }
            _ => Ok(()),
        }
    }
}

impl ClientEnv {
    /// Writes it for `set -a; . FILE` and for `env $(cat FILE)`: no quotes, as no value needs one.
    pub fn write(&self, path: &Path) -> Result<(), FolderError> {
        let secret = self.secret.expose_secret();
        let text = format!(
            "CLOUDSTACK_ENDPOINT={}\nCLOUDSTACK_KEY={}\nCLOUDSTACK_SECRET={secret}\n",
            self.endpoint, self.key
        );
        write_private(path, &text).map_err(FolderError::io("writing", path))
    }

    /// Reads it; none when there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, FolderError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FolderError::io("reading", path)(error)),
        };
        let value = |name: &str| {
            let mut lines = text
                .lines()
                .filter_map(|line| line.trim_start_matches("export ").split_once('='));
            let found = lines
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.trim().to_owned());
            found
                .filter(|value| !value.is_empty())
                .ok_or_else(|| FolderError::Changed {
                    path: path.display().to_string(),
                    problem: format!("it has no {name}"),
                })
        };
        Ok(Some(Self {
            endpoint: value("CLOUDSTACK_ENDPOINT")?,
            key: value("CLOUDSTACK_KEY")?,
            secret: SecretString::from(value("CLOUDSTACK_SECRET")?),
        }))
    }
}

/// Writes a file that only its owner can read: under another name first, then renamed.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("cksd-folder-{}-{name}", std::process::id()));
        Folder::make(&path).unwrap()
    }

    #[test]
    fn only_one_works_in_a_folder_and_the_right_ends_with_its_holder() {
        let folder = folder("held");
        let held = folder.hold().unwrap();
        let refused = folder.hold().unwrap_err().to_string();
        assert!(refused.starts_with("another `cksd up` runs on `/"), "{refused}");
        drop(held);
        folder.hold().unwrap();
        fs::remove_dir_all(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_holds_one_world_until_it_is_cleared() {
        let folder = folder("world");
        assert_eq!(folder.scenario(None).unwrap(), None);
        assert_eq!(folder.scenario(Some("small")).unwrap().as_deref(), Some("small"));
        assert_eq!(folder.scenario(None).unwrap().as_deref(), Some("small"));
        let refused = folder.scenario(Some("seed-a")).unwrap_err().to_string();
        assert!(refused.ends_with("leave --lab out, or add --fresh"), "{refused}");
        folder.clear().unwrap();
        assert_eq!(
            folder.scenario(Some("seed-a")).unwrap().as_deref(),
            Some("seed-a")
        );
        fs::remove_dir_all(folder.path()).unwrap();
    }

    #[test]
    fn the_master_key_is_made_once_and_a_changed_one_is_refused() {
        let folder = folder("key");
        let first = folder.master_key().unwrap();
        assert_eq!(
            folder.master_key().unwrap().expose_secret(),
            first.expose_secret()
        );
        let path = folder.path().join("master.key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(matches!(folder.master_key(), Err(FolderError::Changed { .. })));
        folder.clear().unwrap();
        assert_ne!(
            folder.master_key().unwrap().expose_secret(),
            first.expose_secret()
        );
        fs::remove_dir_all(folder.path()).unwrap();
    }

    #[test]
    fn the_client_file_is_read_as_it_was_written_and_only_by_its_owner() {
        let folder = folder("client");
        let path = folder.client_env();
        assert!(ClientEnv::read(&path).unwrap().is_none());
        let written = ClientEnv {
            endpoint: "http://127.0.0.1:8080/client/api".to_owned(),
            key: "key==".to_owned(),
            secret: SecretString::from("secret/+="),
        };
        written.write(&path).unwrap();
        let read = ClientEnv::read(&path).unwrap().unwrap();
        assert_eq!((read.endpoint, read.key), (written.endpoint, written.key));
        assert_eq!(read.secret.expose_secret(), "secret/+=");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "CLOUDSTACK_KEY=x\n").unwrap();
        let problem = ClientEnv::read(&path).unwrap_err().to_string();
        assert!(problem.ends_with("it has no CLOUDSTACK_ENDPOINT"), "{problem}");
        fs::remove_dir_all(folder.path()).unwrap();
    }
}
