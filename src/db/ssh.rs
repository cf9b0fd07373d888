//! How the nodes of a cluster are reached: the login, its key, and the host keys that nodes must show.

use secrecy::{ExposeSecret, SecretString};
use sqlx::PgConnection;

use super::DbError;
use super::secrets::{Cipher, Place};
use crate::domain::id::VmId;

/// The login of a cluster's nodes.
#[derive(Debug, Clone)]
pub struct SshIdentity {
    /// The user.
    pub user: String,
    /// The private key, OpenSSH or PEM.
    pub private_key: SecretString,
}

fn identity_place(cluster_key: i64) -> Place {
    Place::new("ssh_identity", "private_key", cluster_key)
}

fn host_place(cluster_key: i64, vm: VmId, public_key: &str) -> Place {
    Place::new(
        "ssh_host_key",
        "private_key",
        format!("{cluster_key}/{vm}/{public_key}"),
    )
}

/// The login of a cluster's nodes.
pub async fn identity(
    conn: &mut PgConnection,
    cipher: &Cipher,
    cluster_key: i64,
) -> Result<Option<SshIdentity>, DbError> {
    let row = sqlx::query!(
        "select login_user, private_key from ssh_identity where cluster_id = $1",
        cluster_key
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(SshIdentity {
        user: row.login_user,
        private_key: cipher.open_text(&identity_place(cluster_key), &row.private_key)?,
    }))
}

/// Sets the login of a cluster's nodes.
pub async fn set_identity(
    conn: &mut PgConnection,
    cipher: &Cipher,
    cluster_key: i64,
    identity: &SshIdentity,
) -> Result<(), DbError> {
    let sealed = cipher
        .seal(
            &identity_place(cluster_key),
            identity.private_key.expose_secret().as_bytes(),
        )
        .map_err(|error| DbError::inconsistent("ssh_identity", "private_key", cluster_key, error))?;
    sqlx::query!(
        "insert into ssh_identity (cluster_id, login_user, private_key) values ($1, $2, $3)
         on conflict (cluster_id) do update set login_user = excluded.login_user, private_key = excluded.private_key",
        cluster_key,
        identity.user,
        sealed
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Records a host key that a machine must show; `private` only for a key that we made ourselves.
pub async fn put_host_key(
    conn: &mut PgConnection,
    cipher: &Cipher,
    cluster_key: i64,
    vm: VmId,
    public_key: &str,
    private: Option<&SecretString>,
) -> Result<(), DbError> {
    let sealed = private
        .map(|key| {
            cipher.seal(
                &host_place(cluster_key, vm, public_key),
                key.expose_secret().as_bytes(),
            )
        })
        .transpose()
        .map_err(|error| DbError::inconsistent("ssh_host_key", "private_key", vm, error))?;
    sqlx::query!(
        "insert into ssh_host_key (cluster_id, vm_id, public_key, private_key) values ($1, $2, $3, $4)
         on conflict (cluster_id, vm_id, public_key) do nothing",
        cluster_key,
        vm.0,
        public_key,
        sealed
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Drops all host keys of a machine, before others are recorded.
pub async fn drop_host_keys(conn: &mut PgConnection, cluster_key: i64, vm: VmId) -> Result<u64, DbError> {
    let done = sqlx::query!(
        "delete from ssh_host_key where cluster_id = $1 and vm_id = $2",
        cluster_key,
        vm.0
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected())
}
