//! Accounts, users and domains: who calls, and what a caller may see.
//!
//! What this must not know: how callers prove who they are.

use serde::{Deserialize, Serialize};

use super::id::{AccountId, DomainId, ProjectId, UserId};

/// What an account may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AccountRole {
    /// Everything.
    Admin,
    /// Everything of its domain and what is below it.
    DomainAdmin,
    /// What is its own.
    User,
}

impl AccountRole {
    /// All of them.
    pub const ALL: &[AccountRole] = &[AccountRole::Admin, AccountRole::DomainAdmin, AccountRole::User];

    /// The word as stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            AccountRole::Admin => "Admin",
            AccountRole::DomainAdmin => "DomainAdmin",
            AccountRole::User => "User",
        }
    }

    /// The role of a word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|role| role.name() == name)
    }
}

/// A domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// The key inside the database.
    pub key: i64,
    /// The id that clients see.
    pub id: DomainId,
    /// Its name.
    pub name: String,
    /// Its path as stored: starts and ends with a slash.
    pub path: String,
}

impl Domain {
    /// Whether this domain is `other` or above it.
    #[must_use]
    pub fn holds(&self, other: &Domain) -> bool {
        other.path.starts_with(&self.path)
    }
}

/// A path as clients see it: `ROOT`, `ROOT/a/b`.
#[must_use]
pub fn shown_path(path: &str) -> String {
    format!("ROOT{}", path.trim_end_matches('/'))
}

/// A path as stored, of one as people write it: `ROOT/a/b`, `/a/b`, `a/b/` are `/a/b/`; `ROOT` and `/` are `/`.
#[must_use]
pub fn stored_path(written: &str) -> String {
    let parts: Vec<&str> = written.split('/').filter(|part| !part.is_empty()).collect();
    let below = match parts.split_first() {
        Some((first, rest)) if first.eq_ignore_ascii_case("root") => rest,
        _ => parts.as_slice(),
    };
    below
        .iter()
        .fold("/".to_owned(), |path, part| format!("{path}{part}/"))
}

/// An account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The key inside the database.
    pub key: i64,
    /// The id that clients see.
    pub id: AccountId,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub role: AccountRole,
    /// Its domain.
    pub domain: Domain,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The id that clients see.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// The key of the account that owns what is the project's.
    pub account_key: i64,
    /// Its domain.
    pub domain: Domain,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user's key.
    pub user_key: i64,
    /// The user's id.
    pub user_id: UserId,
    /// The user's name.
    pub user_name: String,
    /// The user's account.
    pub account: Account,
}

impl Caller {
    /// Whether the caller may see what a domain holds.
    #[must_use]
    pub fn administers(&self, domain: &Domain) -> bool {
        match self.account.role {
            AccountRole::Admin => true,
            AccountRole::DomainAdmin => self.account.domain.holds(domain),
            AccountRole::User => false,
        }
    }
}

/// Whether rows that belong to projects are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectRows {
    /// They are.
    Shown,
    /// They are not.
    Hidden,
}

/// Which rows a list may show. All conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Only of these accounts.
    pub accounts: Option<Vec<i64>>,
    /// Only of this domain.
    pub domain: Option<i64>,
    /// Only of the domains whose path starts so.
    pub subtree: Option<String>,
    /// Rows of projects.
    pub projects: ProjectRows,
}

impl Scope {
    /// Everything that `caller` may see at all, with `memberships` being the accounts of the projects that
    /// the caller is a member of. An object outside of it does not exist for the caller.
    #[must_use]
    pub fn visible(caller: &Caller, memberships: &[i64]) -> Scope {
        let everything = Scope {
            accounts: None,
            domain: None,
            subtree: None,
            projects: ProjectRows::Shown,
        };
        match caller.account.role {
            AccountRole::Admin => everything,
            AccountRole::DomainAdmin => Scope {
                subtree: Some(caller.account.domain.path.clone()),
                ..everything
            },
            AccountRole::User => Scope {
                accounts: Some([&[caller.account.key], memberships].concat()),
                ..everything
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn domain(key: i64, path: &str) -> Domain {
        Domain {
            key,
            id: DomainId(Uuid::nil()),
            name: path.to_owned(),
            path: path.to_owned(),
        }
    }

    fn caller(role: AccountRole, path: &str) -> Caller {
        Caller {
            user_key: 1,
            user_id: UserId(Uuid::nil()),
            user_name: "u".to_owned(),
            account: Account {
                key: 7,
                id: AccountId(Uuid::nil()),
                name: "a".to_owned(),
                role,
                domain: domain(1, path),
            },
        }
    }

    #[test]
    fn a_domain_administrator_reaches_down_but_not_up_or_aside() {
        let admin = caller(AccountRole::DomainAdmin, "/a/");
        assert!(admin.administers(&domain(2, "/a/b/")));
        assert!(admin.administers(&domain(1, "/a/")));
        assert!(!admin.administers(&domain(3, "/")));
        assert!(!admin.administers(&domain(4, "/ab/")));
        assert!(caller(AccountRole::Admin, "/").administers(&domain(4, "/ab/")));
        assert!(!caller(AccountRole::User, "/a/").administers(&domain(1, "/a/")));
    }

    #[test]
    fn what_is_visible_depends_on_the_role() {
        let user = Scope::visible(&caller(AccountRole::User, "/a/"), &[9]);
        assert_eq!(user.accounts, Some(vec![7, 9]));
        let admin = Scope::visible(&caller(AccountRole::DomainAdmin, "/a/"), &[]);
        assert_eq!((admin.accounts, admin.subtree.as_deref()), (None, Some("/a/")));
        let root = Scope::visible(&caller(AccountRole::Admin, "/"), &[]);
        assert_eq!((root.accounts, root.subtree), (None, None));
    }

    #[test]
    fn paths_are_shown_below_root() {
        assert_eq!(shown_path("/"), "ROOT");
        assert_eq!(shown_path("/a/b/"), "ROOT/a/b");
    }

    #[test]
    fn roles_have_words() {
        for role in AccountRole::ALL {
            assert_eq!(AccountRole::from_name(role.name()), Some(*role));
        }
    }
}
