//! All objects of one cluster in memory, their resource versions, and the log that watches read.
//!
//! One lock, held for the length of a decision and never over an await. Whoever wants to react to a change waits on
//! a counter ([`Store::changes`]) and then reads the log: so an idle cluster costs nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::json;
use super::resources::{EVENT, LEASE, Resource};

/// How many changes a watch may be behind before it must list anew.
const LOG_LENGTH: usize = 4096;

/// Where an object lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    group: &'static str,
    plural: &'static str,
    namespace: String,
    name: String,
}

impl Key {
    fn new(resource: &'static Resource, namespace: &str, name: &str) -> Self {
        Self {
            group: resource.group,
            plural: resource.plural,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// An object with the time of its last write.
#[derive(Debug)]
struct Entry {
    object: Arc<Value>,
    touched: Instant,
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) resource: &'static Resource,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// The objects of a cluster.
#[derive(Debug, Default)]
pub(crate) struct State {
    version: u64,
    /// Counts the changes that controllers care about (not leases, not events).
    work: u64,
    objects: BTreeMap<Key, Entry>,
    log: VecDeque<Arc<Change>>,
}

impl State {
    /// The resource version of the last change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// How many changes there were that controllers care about.
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    /// One object.
    pub(crate) fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects
            .get(&Key::new(resource, namespace, name))
            .map(|entry| entry.object.clone())
    }

    /// When an object was last written.
    pub(crate) fn touched(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Instant> {
        self.objects
            .get(&Key::new(resource, namespace, name))
            .map(|entry| entry.touched)
    }

    /// The objects of a resource, in the order of namespace and name.
    pub(crate) fn list(&self, resource: &'static Resource, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let first = Key::new(resource, namespace.unwrap_or(""), "");
        self.objects
            .range(first..)
            .take_while(|(key, _)| {
                key.group == resource.group
                    && key.plural == resource.plural
                    && namespace.is_none_or(|wanted| key.namespace == wanted)
            })
            .map(|(_, entry)| entry.object.clone())
            .collect()
    }

    /// Every object, of whatever kind.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.values().map(|entry| &entry.object)
    }

    /// Writes an object under its name, with a new resource version.
    pub(crate) fn put(&mut self, resource: &'static Resource, mut object: Value) -> Arc<Value> {
        self.version += 1;
        json::put(
            &mut object,
            "/metadata/resourceVersion",
            json!(self.version.to_string()),
        );
        let key = Key::new(resource, json::namespace(&object), json::name(&object));
        let object = Arc::new(object);
        let entry = Entry {
            object: object.clone(),
            touched: Instant::now(),
        };
        let before = self.objects.insert(key, entry).map(|entry| entry.object);
        self.record(resource, before, Some(object.clone()));
        object
    }

    /// Removes an object.
    pub(crate) fn remove(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        let entry = self.objects.remove(&Key::new(resource, namespace, name))?;
        self.version += 1;
        let mut last = (*entry.object).clone();
        json::put(
            &mut last,
            "/metadata/resourceVersion",
            json!(self.version.to_string()),
        );
        let last = Arc::new(last);
        self.record(resource, Some(last.clone()), None);
        Some(last)
    }

    fn record(&mut self, resource: &'static Resource, before: Option<Arc<Value>>, after: Option<Arc<Value>>) {
        if *resource != LEASE && *resource != EVENT {
            self.work += 1;
        }
        self.log.push_back(Arc::new(Change {
            version: self.version,
            resource,
            before,
            after,
        }));
        if self.log.len() > LOG_LENGTH {
            self.log.pop_front();
        }
    }

    /// The changes after a version, or `None` if the log no longer reaches back so far.
    pub(crate) fn since(&self, version: u64) -> Option<Vec<Arc<Change>>> {
        let oldest = self.log.front().map_or(self.version + 1, |change| change.version);
        if version > self.version || (version + 1 < oldest && version < self.version) {
            return None;
        }
        let new = self.log.len() - self.log.partition_point(|change| change.version <= version);
        Some(self.log.iter().skip(self.log.len() - new).cloned().collect())
    }

    /// Everything, for the saved world.
    pub(crate) fn snapshot(&self) -> Value {
        let objects: Vec<&Value> = self.all().map(AsRef::as_ref).collect();
        json!({"resourceVersion": self.version, "objects": objects})
    }

    /// Puts back a saved object as it was, and remembers the highest version.
    pub(crate) fn put_back(&mut self, resource: &'static Resource, object: Value) {
        let key = Key::new(resource, json::namespace(&object), json::name(&object));
        self.objects.insert(
            key,
            Entry {
                object: Arc::new(object),
                touched: Instant::now(),
            },
        );
    }

    /// Goes on counting after a saved version.
    pub(crate) fn resume_at(&mut self, version: u64) {
        self.version = self.version.max(version);
    }
}

/// The state behind its lock, and the signal that it changed.
#[derive(Debug)]
pub(crate) struct Store {
    state: Mutex<State>,
    latest: watch::Sender<u64>,
    work: watch::Sender<u64>,
}

impl Store {
    pub(crate) fn new(state: State) -> Self {
        let (latest, work) = (watch::Sender::new(state.version), watch::Sender::new(state.work));
        Self {
            state: Mutex::new(state),
            latest,
            work,
        }
    }

    /// Runs a decision on the state. What it changed is announced when it is done.
    pub(crate) fn with<T>(&self, decide: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = decide(&mut state);
        let (version, work) = (state.version, state.work);
        drop(state);
        self.latest
            .send_if_modified(|seen| (*seen < version).then(|| *seen = version).is_some());
        self.work
            .send_if_modified(|seen| (*seen < work).then(|| *seen = work).is_some());
        answer
    }

    /// Changes when any object changed: the latest resource version.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// Changes when an object changed that controllers care about.
    pub(crate) fn work(&self) -> watch::Receiver<u64> {
        self.work.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::kube::resources::{NODE, POD};

    fn named(namespace: &str, name: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}})
    }

    #[test]
    fn a_list_keeps_to_its_resource_and_namespace() {
        let mut state = State::default();
        state.put(&POD, named("b", "two"));
        state.put(&POD, named("a", "one"));
        state.put(&NODE, named("", "n"));
        let names = |list: Vec<Arc<Value>>| {
            list.iter()
                .map(|item| json::name(item).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(state.list(&POD, None)), ["one", "two"]);
        assert_eq!(names(state.list(&POD, Some("b"))), ["two"]);
        assert_eq!(names(state.list(&NODE, None)), ["n"]);
    }

    #[test]
    fn the_log_gives_what_came_after_a_version_or_says_that_it_is_too_old() {
        let mut state = State::default();
        for number in 0..(LOG_LENGTH + 2) {
            state.put(&POD, named("a", &format!("p{}", number % 3)));
        }
        assert!(state.since(1).is_none());
        assert_eq!(state.since(2).unwrap().len(), LOG_LENGTH);
        assert_eq!(state.since(state.version()).unwrap().len(), 0);
        state.remove(&POD, "a", "p0");
        let last = state.since(state.version() - 1).unwrap();
        assert!(last[0].after.is_none());
        assert_eq!(
            json::text(last[0].before.as_ref().unwrap(), "/metadata/resourceVersion"),
            state.version().to_string()
        );
    }

    #[test]
    fn leases_do_not_wake_controllers() {
        let store = Store::new(State::default());
        let (work, changes) = (store.work(), store.changes());
        store.with(|state| state.put(&LEASE, named("kube-node-lease", "n")));
        assert!(changes.has_changed().unwrap());
        assert!(!work.has_changed().unwrap());
        store.with(|state| state.put(&NODE, named("", "n")));
        assert!(work.has_changed().unwrap());
    }
}
