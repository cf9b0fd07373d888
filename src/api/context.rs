//! What a command has in hand: who calls, with which parameters, and the way to the database.

use std::sync::Arc;

use sqlx::PgConnection;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

use super::{Api, ApiError};
use crate::db::accounts;
use crate::db::lists::Window;
use crate::db::lists::clusters::{self, Known};
use crate::domain::account::{AccountRole, Caller, Scope};
use crate::domain::id::ClusterId;
use crate::domain::settings::{DEFAULT_PAGE_SIZE, Settings};
use crate::protocol::paging::Page;
use crate::protocol::{Command, Fault, Params};

/// One request on its way through a command.
pub struct Cx {
    /// The service.
    pub api: Arc<Api>,
    /// Who calls.
    pub caller: Caller,
    /// The parameters, checked against the command's declaration.
    pub params: Params,
    /// The command.
    pub command: &'static Command,
    /// The settings at the moment of the call.
    pub settings: Arc<Settings>,
    /// The id of the HTTP request, stored with the job.
    pub request_id: String,
}

impl Cx {
    /// A connection.
    pub async fn connection(&self) -> Result<PoolConnection<sqlx::Postgres>, ApiError> {
        Ok(self.api.state.pool.acquire().await?)
    }

    /// A parameter's text; blank means not given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).filter(|value| !value.trim().is_empty())
    }

    /// A parameter's id; blank means not given.
    pub fn id(&self, name: &str) -> Result<Option<Uuid>, Fault> {
        match self.text(name).map(str::trim) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| self.unknown_id(name, text)),
        }
    }

    /// An id that must be there.
    pub fn required_id(&self, name: &str) -> Result<Uuid, Fault> {
        self.id(name)?
            .ok_or_else(|| Fault::missing(self.command.name, name))
    }

    /// A parameter's number; blank means not given.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Fault> {
        match self.text(name).map(str::trim) {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Fault::unreadable(self.command.name, name, text)),
        }
    }

    /// Whether a parameter is the word true.
    #[must_use]
    pub fn is_true(&self, name: &str) -> bool {
        self.params
            .get(name)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// The answer to an id that is unknown or out of sight.
    #[must_use]
    pub fn unknown_id(&self, name: &str, value: &str) -> Fault {
        Fault::unknown_id(self.command.name, name, value)
    }

    /// The page that is asked for.
    pub fn page(&self) -> Result<Page, Fault> {
        let max = u32::try_from(self.settings.number(&DEFAULT_PAGE_SIZE)).unwrap_or(500);
        Page::read(self.command.name, &self.params, max)
    }

    /// The page as the database takes it.
    pub fn window(&self) -> Result<Window, Fault> {
        let page = self.page()?;
        Ok(Window {
            limit: page.limit.map_or(i64::MAX, i64::from),
            offset: i64::try_from(page.offset).unwrap_or(i64::MAX),
        })
    }

    /// Whether the caller administers everything.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.caller.account.role == AccountRole::Admin
    }

    /// Everything that the caller may see.
    pub async fn sight(&self, conn: &mut PgConnection) -> Result<Scope, ApiError> {
        let memberships = match self.caller.account.role {
            AccountRole::User => accounts::project_accounts_of(conn, self.caller.account.key).await?,
            AccountRole::Admin | AccountRole::DomainAdmin => Vec::new(),
        };
        Ok(Scope::visible(&self.caller, &memberships))
    }

    /// The key of the cluster that a command acts on. One that is unknown, out of sight or gone does not
    /// exist for the caller.
    pub async fn cluster(&self, conn: &mut PgConnection, name: &str) -> Result<(i64, ClusterId), ApiError> {
        let id = ClusterId(self.required_id(name)?);
        let sight = self.sight(conn).await?;
        match clusters::look_up(conn, &sight, id).await? {
            Some(Known::Here(key)) => Ok((key, id)),
            Some(Known::Gone) | None => Err(self.unknown_id(name, &id.to_string()).into()),
        }
    }
}
