//! Domains, accounts, users with their keys, projects.

use secrecy::{ExposeSecret, SecretString};
use sqlx::PgConnection;

use super::DbError;
use super::secrets::{Cipher, Place};
use crate::domain::account::{Account, AccountRole, Caller, Domain, Project};
use crate::domain::id::{AccountId, DomainId, ProjectId, UserId};

/// The path of the domain above all others.
pub const ROOT_PATH: &str = "/";

/// The owner of an API key.
#[derive(Debug, Clone)]
pub struct KeyOwner {
    /// The user.
    pub caller: Caller,
    /// Whether user and account are both enabled and not removed.
    pub enabled: bool,
    /// The secret key, sealed.
    pub sealed_secret: Vec<u8>,
}

/// Where a user's secret key is stored.
#[must_use]
pub fn secret_place(user: UserId) -> Place {
    Place::new("user", "secret_key", user)
}

fn role_of(row: i64, text: &str) -> Result<AccountRole, DbError> {
    AccountRole::from_name(text).ok_or_else(|| DbError::inconsistent("account", "role", row, text))
}

/// The owner of an API key, enabled or not.
pub async fn by_api_key(conn: &mut PgConnection, api_key: &str) -> Result<Option<KeyOwner>, DbError> {
    let row = sqlx::query!(
        r#"select u.id as user_key, u.uuid as user_id, u.username, u.secret_key as "secret_key!",
             a.id as account_key, a.uuid as account_id, a.account_name, a.role,
             d.id as domain_key, d.uuid as domain_id, d.name as domain_name, d.path,
             (u.state = 'enabled' and u.removed is null and a.state = 'enabled' and a.removed is null) as "enabled!"
           from "user" u join account a on a.id = u.account_id join domain d on d.id = a.domain_id
           where u.api_key = $1 and u.secret_key is not null"#,
        api_key
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(KeyOwner {
        caller: Caller {
            user_key: row.user_key,
            user_id: row.user_id.into(),
            user_name: row.username,
            account: Account {
                key: row.account_key,
                id: row.account_id.into(),
                name: row.account_name,
                role: role_of(row.account_key, &row.role)?,
                domain: Domain {
                    key: row.domain_key,
                    id: row.domain_id.into(),
                    name: row.domain_name,
                    path: row.path,
                },
            },
        },
        enabled: row.enabled,
        sealed_secret: row.secret_key,
    }))
}

/// A domain by its id.
pub async fn domain_by_id(conn: &mut PgConnection, id: DomainId) -> Result<Option<Domain>, DbError> {
    let row = sqlx::query!("select id, uuid, name, path from domain where uuid = $1", id.0)
        .fetch_optional(conn)
        .await?;
    Ok(row.map(|row| Domain {
        key: row.id,
        id: row.uuid.into(),
        name: row.name,
        path: row.path,
    }))
}

/// A domain by its path.
pub async fn domain_by_path(conn: &mut PgConnection, path: &str) -> Result<Option<Domain>, DbError> {
    let row = sqlx::query!("select id, uuid, name, path from domain where path = $1", path)
        .fetch_optional(conn)
        .await?;
    Ok(row.map(|row| Domain {
        key: row.id,
        id: row.uuid.into(),
        name: row.name,
        path: row.path,
    }))
}

/// Makes a domain below `parent`, or the root.
pub async fn insert_domain(
    conn: &mut PgConnection,
    id: DomainId,
    name: &str,
    parent: Option<&Domain>,
) -> Result<Domain, DbError> {
    let path = match parent {
        Some(parent) => format!("{}{name}/", parent.path),
        None => ROOT_PATH.to_owned(),
    };
    let key = sqlx::query_scalar!(
        "insert into domain (uuid, parent_id, name, path) values ($1, $2, $3, $4) returning id",
        id.0,
        parent.map(|parent| parent.key),
        name,
        path
    )
    .fetch_one(conn)
    .await?;
    Ok(Domain {
        key,
        id,
        name: name.to_owned(),
        path,
    })
}

/// An account by its name in a domain, unless it was removed. A project's own account has no name that a
/// caller could give.
pub async fn account_by_name(
    conn: &mut PgConnection,
    domain: &Domain,
    name: &str,
) -> Result<Option<Account>, DbError> {
    let row = sqlx::query!(
        "select id, uuid, account_name, role from account
         where domain_id = $1 and account_name = $2 and removed is null and not is_project",
        domain.key,
        name
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Account {
        key: row.id,
        id: row.uuid.into(),
        name: row.account_name,
        role: role_of(row.id, &row.role)?,
        domain: domain.clone(),
    }))
}

/// Makes an account.
pub async fn insert_account(
    conn: &mut PgConnection,
    id: AccountId,
    domain: &Domain,
    name: &str,
    role: AccountRole,
) -> Result<Account, DbError> {
    let key = sqlx::query_scalar!(
        "insert into account (uuid, domain_id, account_name, role) values ($1, $2, $3, $4) returning id",
        id.0,
        domain.key,
        name,
        role.name()
    )
    .fetch_one(conn)
    .await?;
    Ok(Account {
        key,
        id,
        name: name.to_owned(),
        role,
        domain: domain.clone(),
    })
}

/// The key of a user by name, unless it was removed.
pub async fn find_user(
    conn: &mut PgConnection,
    account_key: i64,
    name: &str,
) -> Result<Option<(i64, UserId)>, DbError> {
    let row = sqlx::query!(
        r#"select id, uuid from "user" where account_id = $1 and username = $2 and removed is null"#,
        account_key,
        name
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.id, row.uuid.into())))
}

/// Makes a user without keys and password; gives its key.
pub async fn insert_user(
    conn: &mut PgConnection,
    id: UserId,
    account_key: i64,
    name: &str,
) -> Result<i64, DbError> {
    Ok(sqlx::query_scalar!(
        r#"insert into "user" (uuid, account_id, username) values ($1, $2, $3) returning id"#,
        id.0,
        account_key,
        name
    )
    .fetch_one(conn)
    .await?)
}

/// Sets the keys of a user; the secret is sealed. The keys that it had stop working.
pub async fn set_keys(
    conn: &mut PgConnection,
    cipher: &Cipher,
    user: UserId,
    api_key: &str,
    secret: &SecretString,
) -> Result<(), DbError> {
    let sealed = cipher
        .seal(&secret_place(user), secret.expose_secret().as_bytes())
        .map_err(|error| DbError::inconsistent("user", "secret_key", user, error))?;
    let done = sqlx::query!(
        r#"update "user" set api_key = $2, secret_key = $3 where uuid = $1 and removed is null"#,
        user.0,
        api_key,
        sealed
    )
    .execute(conn)
    .await?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(DbError::Missing {
            table: "user",
            row: user.to_string(),
        })
    }
}

/// Enables or disables a user; says whether it was there.
pub async fn set_user_state(
    conn: &mut PgConnection,
    user: UserId,
    state: UserState,
) -> Result<bool, DbError> {
    let state = match state {
        UserState::Enabled => "enabled",
        UserState::Disabled => "disabled",
    };
    let done = sqlx::query!(r#"update "user" set state = $2 where uuid = $1"#, user.0, state)
        .execute(conn)
        .await?;
    Ok(done.rows_affected() > 0)
}

/// Whether a user may sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserState {
    /// It may.
    Enabled,
    /// It may not.
    Disabled,
}

/// Makes a project with the account that owns what is the project's.
pub async fn insert_project(
    conn: &mut PgConnection,
    id: ProjectId,
    owner: AccountId,
    domain: &Domain,
    name: &str,
) -> Result<Project, DbError> {
    let account_key = sqlx::query_scalar!(
        "insert into account (uuid, domain_id, account_name, role, is_project)
         values ($1, $2, $3, 'User', true) returning id",
        owner.0,
        domain.key,
        format!("PrjAcct-{name}-{id}"),
    )
    .fetch_one(&mut *conn)
    .await?;
    sqlx::query!(
        "insert into project (uuid, name, domain_id, project_account_id) values ($1, $2, $3, $4)",
        id.0,
        name,
        domain.key,
        account_key
    )
    .execute(conn)
    .await?;
    Ok(Project {
        id,
        name: name.to_owned(),
        account_key,
        domain: domain.clone(),
    })
}

/// Makes an account a member of a project.
pub async fn join_project(
    conn: &mut PgConnection,
    project: ProjectId,
    account_key: i64,
) -> Result<(), DbError> {
    sqlx::query!(
        "insert into project_account (project_id, account_id)
         select id, $2 from project where uuid = $1 on conflict do nothing",
        project.0,
        account_key
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A project, unless it was removed.
pub async fn project_by_id(conn: &mut PgConnection, id: ProjectId) -> Result<Option<Project>, DbError> {
    let row = sqlx::query!(
        "select p.name, p.project_account_id, d.id as domain_key, d.uuid as domain_id, d.name as domain_name, d.path
         from project p join domain d on d.id = p.domain_id where p.uuid = $1 and p.removed is null",
        id.0
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| Project {
        id,
        name: row.name,
        account_key: row.project_account_id,
        domain: Domain {
            key: row.domain_key,
            id: row.domain_id.into(),
            name: row.domain_name,
            path: row.path,
        },
    }))
}

/// The accounts of the projects that an account is a member of.
pub async fn project_accounts_of(conn: &mut PgConnection, account_key: i64) -> Result<Vec<i64>, DbError> {
    Ok(sqlx::query_scalar!(
        "select p.project_account_id from project p join project_account m on m.project_id = p.id
         where m.account_id = $1 and p.removed is null order by p.id",
        account_key
    )
    .fetch_all(conn)
    .await?)
}
