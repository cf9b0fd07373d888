//! Accounts, users, keys and versions, made by an operator.
//!
//! Everything may be repeated: what is there already is found instead of made. Only new keys are always new.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use sqlx::{Connection as _, PgConnection};

use crate::db::cloud_objects::{self, CloudKind, CloudObject};
use crate::db::secrets::Cipher;
use crate::db::versions::{self, NewVersion, SupportedVersion};
use crate::db::{DbError, accounts};
use crate::domain::account::{Account, AccountRole, Domain, stored_path};
use crate::domain::id::{AccountId, DomainId, IsoId, UserId, VersionId, ZoneId};
use crate::domain::version::KubeVersion;
use crate::ports::Ports;
use crate::ports::clock::Ids;
use crate::ports::cloud::CloudError;

/// What a key is made of: 64 bytes, 86 letters, as CloudStack's own.
const KEY_BYTES: usize = 64;

/// The keys of a user; shown once.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The API key.
    pub api_key: String,
    /// The secret key.
    pub secret_key: SecretString,
}

/// A version to register.
#[derive(Debug, Clone)]
pub struct VersionRequest {
    /// `1.33.1`
    pub semantic_version: String,
    /// The ISO with its binaries.
    pub iso: IsoId,
    /// Its name; `v1.33.1` when absent.
    pub name: Option<String>,
    /// The only zone that it is for.
    pub zone: Option<ZoneId>,
    /// Least number of cores.
    pub min_cpu: i32,
    /// Least memory in MB.
    pub min_ram_mb: i64,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The database.
    #[error(transparent)]
    Db(#[from] DbError),
    /// The cloud.
    #[error("the cloud gave no answer, so the ISO cannot be looked at: {0}")]
    Cloud(#[from] CloudError),
    /// A name that cannot be used.
    #[error("`{0}` cannot be a name: 1 to 255 letters, digits and `. _ @ -`")]
    Name(String),
    /// The account is there with another role.
    #[error("account {name} of domain {domain} is there with the role {role}")]
    OtherRole {
        /// Its name.
        name: String,
        /// Its domain.
        domain: String,
        /// The role that it has.
        role: &'static str,
    },
    /// No such account.
    #[error("account {name} of domain {domain} does not exist: make it with `cksd admin account add {name}`")]
    NoAccount {
        /// The name.
        name: String,
        /// The domain.
        domain: String,
    },
    /// A version that is none.
    #[error("`{0}` is no version of Kubernetes: it has three numbers, like 1.33.1")]
    Version(String),
    /// No such ISO.
    #[error("the cloud has no ISO {0} that this service may see")]
    NoIso(IsoId),
    /// The ISO cannot be attached.
    #[error("ISO {0} is not ready in the cloud: wait until it is downloaded")]
    IsoNotReady(IsoId),
}

impl From<sqlx::Error> for AdminError {
    fn from(error: sqlx::Error) -> Self {
        Self::Db(error.into())
    }
}

/// An account, found or made; so are the domains of its path.
pub async fn ensure_account(
    conn: &mut PgConnection,
    ids: &dyn Ids,
    path: &str,
    name: &str,
    role: AccountRole,
) -> Result<Account, AdminError> {
    check_name(name)?;
    let mut tx = conn.begin().await?;
    let domain = ensure_domain(&mut tx, ids, path).await?;
    let account = match accounts::account_by_name(&mut tx, &domain, name).await? {
        Some(account) if account.role == role => account,
        Some(account) => {
            return Err(AdminError::OtherRole {
                name: account.name,
                domain: domain.path,
                role: account.role.name(),
            });
        }
        None => accounts::insert_account(&mut tx, AccountId(ids.random()), &domain, name, role).await?,
    };
    tx.commit().await?;
    Ok(account)
}

/// The domain of a path, with all above it, found or made.
async fn ensure_domain(conn: &mut PgConnection, ids: &dyn Ids, path: &str) -> Result<Domain, AdminError> {
    let path = stored_path(path);
    let mut domain = match accounts::domain_by_path(conn, accounts::ROOT_PATH).await? {
        Some(root) => root,
        None => accounts::insert_domain(conn, DomainId(ids.random()), "ROOT", None).await?,
    };
    for name in path.split('/').filter(|name| !name.is_empty()) {
        check_name(name)?;
        let below = format!("{}{name}/", domain.path);
        domain = match accounts::domain_by_path(conn, &below).await? {
            Some(found) => found,
            None => accounts::insert_domain(conn, DomainId(ids.random()), name, Some(&domain)).await?,
        };
    }
    Ok(domain)
}

/// New keys for a user of an account; the user is found or made. Keys that it had stop working.
pub async fn new_keys(
    conn: &mut PgConnection,
    cipher: &Cipher,
    ids: &dyn Ids,
    path: &str,
    account: &str,
    user: &str,
) -> Result<Keys, AdminError> {
    check_name(user)?;
    let path = stored_path(path);
    let mut tx = conn.begin().await?;
    let missing = || AdminError::NoAccount {
        name: account.to_owned(),
        domain: path.clone(),
    };
    let domain = accounts::domain_by_path(&mut tx, &path)
        .await?
        .ok_or_else(missing)?;
    let owner = accounts::account_by_name(&mut tx, &domain, account)
        .await?
        .ok_or_else(missing)?;
    let found = accounts::find_user(&mut tx, owner.key, user).await?;
    let user = if let Some((_, id)) = found {
        id
    } else {
        let id = UserId(ids.random());
        accounts::insert_user(&mut tx, id, owner.key, user).await?;
        id
    };
    let keys = Keys {
        api_key: random_key(),
        secret_key: SecretString::from(random_key()),
    };
    accounts::set_keys(&mut tx, cipher, user, &keys.api_key, &keys.secret_key).await?;
    tx.commit().await?;
    Ok(keys)
}

/// Registers a version by its ISO, or finds it registered.
pub async fn ensure_version(
    conn: &mut PgConnection,
    ports: &Ports,
    request: &VersionRequest,
) -> Result<SupportedVersion, AdminError> {
    let semantic = request.semantic_version.trim().trim_start_matches('v').to_owned();
    if semantic.parse::<KubeVersion>().is_err() {
        return Err(AdminError::Version(request.semantic_version.clone()));
    }
    if let Some(found) = versions::by_iso(conn, &semantic, request.iso).await? {
        return Ok(found);
    }
    let iso = ports
        .cloud
        .iso(request.iso)
        .await?
        .ok_or(AdminError::NoIso(request.iso))?;
    if !iso.ready {
        return Err(AdminError::IsoNotReady(request.iso));
    }
    let name = request.name.clone().unwrap_or_else(|| format!("v{semantic}"));
    let new = NewVersion {
        id: VersionId(ports.ids.random()),
        name,
        semantic_version: semantic,
        iso_id: request.iso,
        zone_id: request.zone,
        min_cpu: request.min_cpu,
        min_ram_mb: request.min_ram_mb,
    };
    let mut tx = conn.begin().await?;
    let made = versions::insert(&mut tx, &new).await?;
    // Clients offer only versions whose ISO is Ready, and a list asks the cloud nothing.
    let object = CloudObject {
        name: iso.name.clone(),
        data: serde_json::to_value(&iso).unwrap_or_default(),
        seen_at: ports.clock.now(),
    };
    cloud_objects::put(&mut tx, CloudKind::Iso, iso.id.0, &object).await?;
    tx.commit().await?;
    Ok(made)
}

fn check_name(name: &str) -> Result<(), AdminError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    let is_name = (1..=255).contains(&name.len()) && name.chars().all(fits);
    is_name
        .then_some(())
        .ok_or_else(|| AdminError::Name(name.to_owned()))
}

fn random_key() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; KEY_BYTES]>())
}
