//! Where the server's folder is, and who owns it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, User};
use sha2::{Digest as _, Sha256};

use super::{Binaries, Guard, PostgresError, hex, locked};

/// Where the data lies when the server's user cannot enter the data folder.
const OTHER_PLACES: &str = "/var/lib/cksd";

/// The user that runs the server when we are root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name, for messages.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl Owner {
    /// None when we are not root: then we run the server ourselves.
    pub(super) fn of_this_process() -> Result<Option<Self>, PostgresError> {
        if !Uid::effective().is_root() {
            return Ok(None);
        }
        let users = ["postgres", "nobody"]
            .iter()
            .filter_map(|name| User::from_name(name).ok().flatten());
        let user = users.into_iter().next().ok_or(PostgresError::NoUser)?;
        Ok(Some(Self {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
        }))
    }
}

/// The folder that holds one folder per major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The folder.
    pub base: PathBuf,
    /// The note in the data folder that names it, when it is elsewhere.
    pub note: Option<PathBuf>,
}

/// The folder of one major version, with its binaries.
pub(super) struct VersionFolder {
    pub(super) path: PathBuf,
    pub(super) binaries: Binaries,
}

impl Place {
    /// `DATA/pg`, or a folder that `owner` can enter.
    pub(super) fn choose(data: &Path, owner: Option<&Owner>) -> Result<Self, PostgresError> {
        let shown = data.display();
        fs::create_dir_all(data).map_err(PostgresError::io(format!("making `{shown}`")))?;
        let data = data
            .canonicalize()
            .map_err(PostgresError::io(format!("finding `{shown}`")))?;
        match owner {
            Some(owner) if !can_use(&data, owner) => {
                let name = hex(&Sha256::digest(data.as_os_str().as_encoded_bytes()));
                Ok(Self {
                    base: Path::new(OTHER_PLACES).join(name.get(..16).unwrap_or(&name)),
                    note: Some(data.join("pg.place")),
                })
            }
            _ => Ok(Self {
                base: data.join("pg"),
                note: None,
            }),
        }
    }

    pub(super) fn make(&self) -> Result<(), PostgresError> {
        make_folder(&self.base, None)?;
        // Others may pass through to the folder of a version, which is its owner's alone.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&self.base, open)
            .map_err(PostgresError::io("opening the folder of the database"))?;
        if let Some(note) = &self.note {
            let text = format!("{}\n", self.base.display());
            fs::write(note, text).map_err(PostgresError::io(format!("writing `{}`", note.display())))?;
        }
        Ok(())
    }

    pub(super) async fn lock(&self) -> Result<Guard, PostgresError> {
        locked(&self.base.join("lock")).await
    }

    pub(super) fn version_folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.base).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.join("data/PG_VERSION").exists())
            .collect();
        found.sort();
        found
    }

    /// The folder of the version that the data has, or of the newest binaries when there is no data.
    pub(super) fn version_folder(
        &self,
        environment: &BTreeMap<String, String>,
        owner: Option<&Owner>,
    ) -> Result<VersionFolder, PostgresError> {
        let stored = self.version_folders().into_iter().rev().find_map(|folder| {
            let text = fs::read_to_string(folder.join("data/PG_VERSION")).ok()?;
            Some((text.trim().parse::<u32>().ok()?, folder))
        });
        if let Some((major, path)) = stored {
            let binaries =
                Binaries::find(environment, Some(major), owner).map_err(|_| PostgresError::OtherMajor {
                    folder: path.display().to_string(),
                    stored: major,
                })?;
            return Ok(VersionFolder { path, binaries });
        }
        let binaries = Binaries::find(environment, None, owner)?;
        let path = self.base.join(binaries.major.to_string());
        make_folder(&path, owner)?;
        Ok(VersionFolder { path, binaries })
    }

    pub(super) fn remove(&self) -> Result<(), PostgresError> {
        if self.base.exists() {
            let shown = self.base.display();
            fs::remove_dir_all(&self.base).map_err(PostgresError::io(format!("removing `{shown}`")))?;
        }
        Ok(())
    }
}

/// Whether `owner` can enter `path` and every folder above it.
pub(super) fn can_use(path: &Path, owner: &Owner) -> bool {
    path.ancestors().all(|folder| {
        fs::metadata(folder).is_ok_and(|metadata| {
            let bit = if metadata.uid() == owner.uid {
                0o100
            } else if metadata.gid() == owner.gid {
                0o010
            } else {
                0o001
            };
            metadata.mode() & bit != 0
        })
    })
}

/// Makes a folder, for `owner` alone if there is one.
pub(super) fn make_folder(path: &Path, owner: Option<&Owner>) -> Result<(), PostgresError> {
    let shown = path.display();
    fs::create_dir_all(path).map_err(PostgresError::io(format!("making `{shown}`")))?;
    give(path, 0o700, owner)
}

/// Writes a file that only its owner can read.
pub(super) fn write_private(path: &Path, text: &str, owner: Option<&Owner>) -> Result<(), PostgresError> {
    use std::io::Write as _;
    let shown = path.display();
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(PostgresError::io(format!("writing `{shown}`")))?;
    give(path, 0o600, owner)
}

fn give(path: &Path, mode: u32, owner: Option<&Owner>) -> Result<(), PostgresError> {
    let shown = path.display();
    let failed = || PostgresError::io(format!("giving away `{shown}`"));
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed())?;
    if let Some(owner) = owner {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        nix::unistd::chown(path, Some(uid), Some(gid)).map_err(|error| failed()(error.into()))?;
    }
    Ok(())
}
