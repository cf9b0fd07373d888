//! A call: who calls, what is asked, and which objects the caller's list shows.

use serde_json::Value;
use uuid::Uuid;

use super::fault::permission;
use super::model::{AccountKind, CloudState, Owner, User, Vm};
use super::work::Work;
use crate::protocol::paging::Page;
use crate::protocol::{Fault, Params, envelope};

/// Who calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) user: Uuid,
    pub(crate) account: Uuid,
    pub(crate) domain: Uuid,
    pub(crate) kind: AccountKind,
}

impl Caller {
    /// The caller with the keys of a user.
    pub(crate) fn of(state: &CloudState, user: &User) -> Option<Self> {
        let account = state.account(user.account)?;
        Some(Self {
            user: user.id,
            account: account.id,
            domain: account.domain,
            kind: account.kind,
        })
    }

    /// Whether it is root admin.
    pub(crate) fn is_admin(&self) -> bool {
        self.kind == AccountKind::Admin
    }
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) command: &'a str,
    pub(crate) params: &'a Params,
    pub(crate) caller: Caller,
    pub(crate) post: bool,
}

/// What a command answers.
pub(crate) enum Reply {
    /// The body at once.
    Body(Value),
    /// A job: the id of what it makes, its subject, its work.
    Submit {
        makes: Option<Uuid>,
        instance: Option<(&'static str, Uuid)>,
        work: Work,
    },
}

impl Reply {
    /// One object.
    pub(crate) fn object(key: &str, value: Value) -> Self {
        Self::Body(envelope::object_body(key, value))
    }

    /// A job on a machine.
    pub(crate) fn on_vm(vm: Uuid, work: Work) -> Self {
        Self::Submit {
            makes: None,
            instance: Some(("VirtualMachine", vm)),
            work,
        }
    }
}

impl<'a> Call<'a> {
    /// A text that is there and not blank.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.params.get(name).filter(|value| !value.trim().is_empty())
    }

    /// A text that must be there.
    pub(crate) fn need(&self, name: &str) -> Result<&'a str, Fault> {
        self.text(name).ok_or_else(|| Fault::missing(self.command, name))
    }

    /// Whether a flag is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.flag_or(name, false)
    }

    /// A flag with its default.
    pub(crate) fn flag_or(&self, name: &str, default: bool) -> bool {
        self.text(name)
            .map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }

    /// The fault of an id that does not resolve.
    pub(crate) fn unknown(&self, name: &str, value: impl std::fmt::Display) -> Fault {
        Fault::unknown_id(self.command, name, &value.to_string())
    }

    /// An id, if given.
    pub(crate) fn id(&self, name: &str) -> Result<Option<Uuid>, Fault> {
        match self.text(name) {
            None => Ok(None),
            Some(value) => value.parse().map(Some).map_err(|_| self.unknown(name, value)),
        }
    }

    /// An id that must be given.
    pub(crate) fn need_id(&self, name: &str) -> Result<Uuid, Fault> {
        self.need(name)?;
        self.id(name)?.ok_or_else(|| Fault::missing(self.command, name))
    }

    /// A list of ids.
    pub(crate) fn ids(&self, name: &str) -> Result<Vec<Uuid>, Fault> {
        let read = |value: &String| value.parse().map_err(|_| self.unknown(name, value));
        self.params.list(name).iter().map(read).collect()
    }

    /// A port, if given.
    pub(crate) fn port(&self, name: &str) -> Result<Option<u16>, Fault> {
        match self.text(name) {
            None => Ok(None),
            Some(value) => match value.trim().parse::<u16>() {
                Ok(port) if port > 0 => Ok(Some(port)),
                _ => Err(Fault::unreadable(self.command, name, value)),
            },
        }
    }

    /// A port that must be given.
    pub(crate) fn need_port(&self, name: &str) -> Result<u16, Fault> {
        self.need(name)?;
        self.port(name)?.ok_or_else(|| Fault::missing(self.command, name))
    }

    /// The machine that a parameter names: known, not expunged, of the caller.
    pub(crate) fn need_vm<'s>(&self, state: &'s CloudState, name: &str) -> Result<&'s Vm, Fault> {
        let id = self.need_id(name)?;
        let vm = state
            .vm(id)
            .filter(|vm| !vm.removed)
            .ok_or_else(|| self.unknown(name, id))?;
        self.allow(state, vm.owner)?;
        Ok(vm)
    }

    /// Refuses what the caller may not touch.
    pub(crate) fn allow(&self, state: &CloudState, owner: Owner) -> Result<(), Fault> {
        if state.may_use(self.caller.account, owner) {
            return Ok(());
        }
        Err(permission(
            "the caller has no right to this object: its owner or an administrator may use it",
        ))
    }

    /// Which owners the list shows.
    pub(crate) fn scope(&self, state: &CloudState) -> Result<Scope, Fault> {
        let project = match self.text("projectid") {
            None => Projects::None,
            Some("-1") => Projects::All,
            Some(_) => {
                let id = self.need_id("projectid")?;
                state.project(id).ok_or_else(|| self.unknown("projectid", id))?;
                self.allow(state, Owner::Project(id))?;
                Projects::One(id)
            }
        };
        let domain = self.id("domainid")?;
        if let Some(id) = domain {
            state.domain(id).ok_or_else(|| self.unknown("domainid", id))?;
        }
        let account = match self.text("account") {
            None => None,
            Some(_) if project != Projects::None => {
                return Err(Fault::invalid(
                    "Account and projectId can't be specified together",
                ));
            }
            Some(name) => Some(self.account_of(state, name, domain)?),
        };
        Ok(Scope {
            caller: self.caller,
            list_all: self.flag("listall"),
            recursive: self.flag("isrecursive"),
            project,
            domain,
            account,
        })
    }

    /// An account by name, in a domain or the caller's own.
    pub(crate) fn account_of(
        &self,
        state: &CloudState,
        name: &str,
        domain: Option<Uuid>,
    ) -> Result<Uuid, Fault> {
        let domain = domain.unwrap_or(self.caller.domain);
        let found = state.account_named(name, domain).ok_or_else(|| {
            let path = state
                .domain(domain)
                .map_or_else(|| domain.to_string(), |have| have.path.clone());
            Fault::invalid(format!("could not find account {name} in domain {path}"))
        })?;
        self.allow(state, Owner::Account(found.id))?;
        Ok(found.id)
    }

    /// The page of a list that is asked for.
    pub(crate) fn list(&self, state: &CloudState, key: &str, items: Vec<Value>) -> Result<Reply, Fault> {
        let page = Page::read(self.command, self.params, state.settings.page_max)?;
        let total = items.len();
        Ok(Reply::Body(envelope::list_body(key, total, page.cut(items))))
    }
}

/// Which projects a list asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Projects {
    None,
    One(Uuid),
    All,
}

/// Which owners a list shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    caller: Caller,
    list_all: bool,
    recursive: bool,
    project: Projects,
    domain: Option<Uuid>,
    account: Option<Uuid>,
}

impl Scope {
    /// Whether the list shows what an owner has; `by_id` when the request names the object.
    pub(crate) fn shows(&self, state: &CloudState, owner: Owner, by_id: bool) -> bool {
        if !state.may_use(self.caller.account, owner) {
            return false;
        }
        match (owner, self.project) {
            (Owner::Project(id), Projects::One(wanted)) => id == wanted,
            (Owner::Project(_), Projects::All) => true,
            (Owner::Project(_), Projects::None) => by_id,
            (Owner::Account(_), Projects::One(_)) => false,
            (Owner::Account(_), Projects::All) if !self.list_all => false,
            (Owner::Account(id), _) => self.shows_account(state, id, by_id),
        }
    }

    fn shows_account(&self, state: &CloudState, id: Uuid, by_id: bool) -> bool {
        if let Some(wanted) = self.account {
            return id == wanted;
        }
        if let Some(wanted) = self.domain {
            let domain = state.account(id).map(|account| account.domain);
            return domain.is_some_and(|own| own == wanted || (self.recursive && state.within(own, wanted)));
        }
        self.list_all || by_id || id == self.caller.account
    }
}
