//! Which rows a list shows: the account parameters (`api-protocol.md` 2.5).

use sqlx::PgConnection;

use super::context::Cx;
use super::error::ApiError;
use crate::db::accounts;
use crate::domain::account::{Account, AccountRole, Domain, ProjectRows, Scope};
use crate::domain::id::{DomainId, ProjectId};
use crate::protocol::command::{Param, ParamType};
use crate::protocol::{Code, CsCode, Fault};

/// The account parameters, for the declaration of a list command.
pub const ACCOUNT: Param = Param::optional(
    "account",
    ParamType::String,
    "list what this account owns; the domain is domainid, or the caller's",
);
/// See [`ACCOUNT`].
pub const DOMAIN_ID: Param = Param::optional("domainid", ParamType::Uuid, "list what this domain holds");
/// See [`ACCOUNT`].
pub const PROJECT_ID: Param = Param::optional(
    "projectid",
    ParamType::Uuid,
    "list what this project owns; -1 for all projects",
);
/// See [`ACCOUNT`].
pub const IS_RECURSIVE: Param = Param::optional(
    "isrecursive",
    ParamType::Boolean,
    "with domainid, list what is below that domain too",
);
/// See [`ACCOUNT`].
pub const LIST_ALL: Param = Param::optional(
    "listall",
    ParamType::Boolean,
    "list everything that the caller may see, not only what is its own",
);
/// Paging.
pub const PAGE: Param = Param::optional("page", ParamType::Integer, "the page, counted from 1");
/// Paging.
pub const PAGE_SIZE: Param = Param::optional("pagesize", ParamType::Integer, "items on a page");
/// A text in the name.
pub const KEYWORD: Param = Param::optional("keyword", ParamType::String, "list by a part of the name");

fn permission_denied(text: impl Into<String>) -> ApiError {
    Fault::new(Code::Permission, CsCode::PermissionDenied, text).into()
}

impl Cx {
    /// The scope of a list by its account parameters. `by_id` says that one object is asked for by its id.
    pub async fn list_scope(&self, conn: &mut PgConnection, by_id: ById) -> Result<Scope, ApiError> {
        let account = self.text("account");
        if let Some(project) = self.text("projectid") {
            if account.is_some() {
                return Err(Fault::invalid("Account and projectId can't be specified together").into());
            }
            return self.project_scope(conn, project.trim()).await;
        }
        let domain = match self.id("domainid")? {
            Some(id) => Some(self.domain(conn, DomainId(id)).await?),
            None => None,
        };
        if let Some(name) = account {
            let domain = domain.unwrap_or_else(|| self.caller.account.domain.clone());
            return self.account_scope(conn, name, &domain).await;
        }
        if let Some(domain) = domain {
            return Ok(self.domain_scope(&domain));
        }
        if by_id == ById::Yes {
            return self.sight(conn).await;
        }
        if self.is_true("listall") {
            let mut all = Scope::visible(&self.caller, &[]);
            all.projects = ProjectRows::Hidden;
            return Ok(all);
        }
        Ok(own(self.caller.account.key))
    }

    async fn domain(&self, conn: &mut PgConnection, id: DomainId) -> Result<Domain, ApiError> {
        let own = &self.caller.account.domain;
        let found = accounts::domain_by_id(conn, id).await?;
        found
            .filter(|domain| domain.key == own.key || self.caller.administers(domain))
            .ok_or_else(|| self.unknown_id("domainid", &id.to_string()).into())
    }

    fn domain_scope(&self, domain: &Domain) -> Scope {
        let mut scope = match self.caller.account.role {
            AccountRole::User => own(self.caller.account.key),
            AccountRole::Admin | AccountRole::DomainAdmin => Scope {
                accounts: None,
                ..own(0)
            },
        };
        if self.is_true("isrecursive") {
            scope.subtree = Some(domain.path.clone());
        } else {
            scope.domain = Some(domain.key);
        }
        scope
    }

    async fn account_scope(
        &self,
        conn: &mut PgConnection,
        name: &str,
        domain: &Domain,
    ) -> Result<Scope, ApiError> {
        let not_found = || {
            ApiError::from(Fault::invalid(format!(
                "could not find account {name} in domain {}",
                domain.id
            )))
        };
        let found: Account = accounts::account_by_name(conn, domain, name)
            .await?
            .ok_or_else(not_found)?;
        if found.key == self.caller.account.key || self.caller.administers(&found.domain) {
            Ok(own(found.key))
        } else {
            Err(not_found())
        }
    }

    async fn project_scope(&self, conn: &mut PgConnection, project: &str) -> Result<Scope, ApiError> {
        let memberships = accounts::project_accounts_of(conn, self.caller.account.key).await?;
        if project == "-1" {
            let mut scope = self.sight(conn).await?;
            if self.caller.account.role == AccountRole::User && !self.is_true("listall") {
                scope.accounts = Some(memberships);
            }
            return Ok(scope);
        }
        let unknown = || self.unknown_id("projectid", project);
        let id: ProjectId = project.parse().map_err(|_| unknown())?;
        let found = accounts::project_by_id(conn, id).await?.ok_or_else(unknown)?;
        if !memberships.contains(&found.account_key) && !self.caller.administers(&found.domain) {
            return Err(permission_denied(format!(
                "account {} is no member of project {id}",
                self.caller.account.name
            )));
        }
        Ok(Scope {
            projects: ProjectRows::Shown,
            ..own(found.account_key)
        })
    }
}

/// Whether a list asks for one object by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ById {
    /// It does.
    Yes,
    /// It does not.
    No,
}

fn own(account_key: i64) -> Scope {
    Scope {
        accounts: Some(vec![account_key]),
        domain: None,
        subtree: None,
        projects: ProjectRows::Hidden,
    }
}
