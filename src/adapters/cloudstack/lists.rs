//! Lists of the cloud: all pages, of all accounts and projects that the keys see.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use super::wire::{Params, Wire, unexpected};
use crate::domain::id::VmId;
use crate::ports::cloud::{CloudError, CloudErrorKind};

/// CloudStack's default for `default.page.size`, which is also the most that it gives.
const PAGE: usize = 500;
/// No list is that long; a server that never ends must not be followed for ever.
const MOST_PAGES: usize = 2000;
/// How many ids one request asks for: its URL stays below 4 KiB.
const IDS: usize = 80;
/// What a server with a smaller page says.
const TOO_LARGE: &str = "max allowed page size value: ";

/// Whose objects a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Of all accounts; a project's only if asked by id.
    Accounts,
    /// Of all projects.
    Projects,
}

/// Lists through a transport.
pub(super) struct Lists {
    page: AtomicUsize,
}

pub(super) fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

impl Lists {
    pub(super) fn new() -> Self {
        Self {
            page: AtomicUsize::new(PAGE),
        }
    }

    /// All pages of one request.
    async fn pages(
        &self,
        wire: &Wire,
        command: &str,
        object: &str,
        params: &Params,
    ) -> Result<Vec<Value>, CloudError> {
        let mut size = self.page.load(Ordering::Relaxed);
        let mut found: Vec<Value> = Vec::new();
        let mut page = 1;
        while page <= MOST_PAGES {
            let mut asked = params.clone();
            asked.push(pair("page", page.to_string()));
            asked.push(pair("pagesize", size.to_string()));
            let answer = match wire.call(command, &asked).await {
                Ok(answer) => answer,
                Err(error) => match smaller(&error, size) {
                    Some(allowed) => {
                        self.page.store(allowed, Ordering::Relaxed);
                        (size, page) = (allowed, 1);
                        found.clear();
                        continue;
                    }
                    None => return Err(error),
                },
            };
            let items = answer.get(object).and_then(Value::as_array);
            let count = answer.get("count").and_then(Value::as_u64).unwrap_or(0);
            let Some(items) = items.filter(|items| !items.is_empty()) else {
                return Ok(found);
            };
            found.extend(items.iter().cloned());
            if u64::try_from(found.len()).unwrap_or(u64::MAX) >= count {
                return Ok(found);
            }
            page += 1;
        }
        Err(unexpected(
            command,
            format!("the list has more than {MOST_PAGES} pages"),
        ))
    }

    async fn scoped(
        &self,
        wire: &Wire,
        command: &str,
        object: &str,
        params: &Params,
        scope: Scope,
    ) -> Result<Vec<Value>, CloudError> {
        let mut params = params.clone();
        params.push(pair("listall", "true"));
        if scope == Scope::Projects {
            params.push(pair("projectid", "-1"));
        }
        self.pages(wire, command, object, &params).await
    }

    /// Objects of all accounts and of all projects, each once.
    pub(super) async fn everyone(
        &self,
        wire: &Wire,
        command: &str,
        object: &str,
        params: &Params,
    ) -> Result<Vec<Value>, CloudError> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for scope in [Scope::Accounts, Scope::Projects] {
            let found = self.scoped(wire, command, object, params, scope).await?;
            all.extend(found.into_iter().filter(|item| seen.insert(id_of(item))));
        }
        Ok(all)
    }

    /// Objects that belong to one thing, so that they are all of accounts or all of projects.
    pub(super) async fn either(
        &self,
        wire: &Wire,
        command: &str,
        object: &str,
        params: &Params,
    ) -> Result<Vec<Value>, CloudError> {
        let found = self
            .scoped(wire, command, object, params, Scope::Accounts)
            .await?;
        if !found.is_empty() {
            return Ok(found);
        }
        self.scoped(wire, command, object, params, Scope::Projects).await
    }

    /// The object with an id, if there is one that we may see. Needs no scope, as an id is enough.
    pub(super) async fn one(
        &self,
        wire: &Wire,
        command: &str,
        object: &str,
        params: Params,
    ) -> Result<Option<Value>, CloudError> {
        match self.pages(wire, command, object, &params).await {
            Ok(found) => Ok(found.into_iter().next()),
            Err(error) if error.kind == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Machines by ids. One id that the cloud does not know fails the whole request, so a request that fails so
    /// is halved until the unknown ones stand alone and are left out.
    pub(super) async fn machines_by_ids(
        &self,
        wire: &Wire,
        ids: &[VmId],
        more: &Params,
    ) -> Result<Vec<Value>, CloudError> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        let mut open: Vec<Vec<VmId>> = ids.chunks(IDS).map(<[VmId]>::to_vec).collect();
        while let Some(part) = open.pop() {
            let joined: Vec<String> = part.iter().map(ToString::to_string).collect();
            let mut params = more.clone();
            params.push(pair("ids", joined.join(",")));
            let mut found = Vec::new();
            let mut unknown = false;
            for scope in [Scope::Accounts, Scope::Projects] {
                match self
                    .scoped(wire, "listVirtualMachines", "virtualmachine", &params, scope)
                    .await
                {
                    Ok(items) => found.extend(items),
                    Err(error) if error.kind == CloudErrorKind::NotFound => unknown = true,
                    Err(error) => return Err(error),
                }
                if unknown || found.len() >= part.len() {
                    break;
                }
            }
            if unknown {
                if part.len() > 1 {
                    let (left, right) = part.split_at(part.len() / 2);
                    open.extend([left.to_vec(), right.to_vec()]);
                }
                continue;
            }
            all.extend(found.into_iter().filter(|item| seen.insert(id_of(item))));
        }
        Ok(all)
    }
}

fn id_of(item: &Value) -> String {
    item.get("id")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// The page size that a server allows, when it refused a larger one.
fn smaller(error: &CloudError, size: usize) -> Option<usize> {
    let (_, allowed) = error.text.split_once(TOO_LARGE)?;
    let allowed: usize = allowed.trim().parse().ok()?;
    (allowed > 0 && allowed < size).then_some(allowed)
}
