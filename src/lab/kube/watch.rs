//! Watches: the changes of a resource as a stream of JSON lines.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::error::Status;
use super::http::{App, bytes};
use super::json as js;
use super::request::{Ask, Shape, Target};
use super::resources::Resource;
use super::selector::{Fields, Labels};
use super::store::Change;
use super::table::{self, Include};

/// How long a watch lasts if the client does not say.
const LONGEST: Duration = Duration::from_mins(30);
/// How often a client that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

struct Watching {
    app: Arc<App>,
    resource: &'static Resource,
    namespace: Option<String>,
    labels: Labels,
    fields: Fields,
    shape: Shape,
    include: Include,
    bookmarks: bool,
    cursor: u64,
    pending: VecDeque<Value>,
    changes: tokio::sync::watch::Receiver<u64>,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
}

/// Starts a watch.
pub(crate) fn start(
    app: &Arc<App>,
    ask: &Ask,
    target: &Target,
    name: Option<&str>,
) -> Result<Response<Body>, Status> {
    let (labels, mut fields) = ask.selectors()?;
    if let Some(name) = name {
        fields = fields.and_name(name);
    }
    let from = ask
        .query("resourceVersion")
        .filter(|text| !text.is_empty() && text != "0");
    let from = match from.as_deref().map(str::parse::<u64>) {
        None => None,
        Some(Ok(version)) => Some(version),
        Some(Err(_)) => {
            return Err(Status::bad_request(
                "resourceVersion: Invalid value: it must be a number",
            ));
        }
    };
    let wants_initial = ask.flag("sendInitialEvents");
    let lasts = ask
        .query("timeoutSeconds")
        .and_then(|text| text.parse().ok())
        .map_or(LONGEST, Duration::from_secs);
    let now = Instant::now();
    let mut watching = Watching {
        app: app.clone(),
        resource: target.resource,
        namespace: target.namespace.clone(),
        labels,
        fields,
        shape: ask.shape(),
        include: Include::parse(ask.query("includeObject").as_deref()),
        bookmarks: ask.flag("allowWatchBookmarks"),
        cursor: from.unwrap_or(0),
        pending: VecDeque::new(),
        changes: app.store.changes(),
        ends: now + lasts,
        next_bookmark: now + BOOKMARK_EVERY,
        over: false,
    };
    if from.is_none() || wants_initial {
        watching.begin(wants_initial);
    }
    let stream = futures_util::stream::unfold(watching, |mut watching| async move {
        let lines = watching.next().await?;
        Some((Ok::<Bytes, Infallible>(lines), watching))
    });
    Ok(bytes(
        200,
        Body::from_stream(stream),
        "application/json;stream=watch",
    ))
}

impl Watching {
    /// Everything that is there now, as if it had just been made.
    fn begin(&mut self, marked: bool) {
        let (found, version) = self.app.store.with(|state| {
            (
                state.list(self.resource, self.namespace.as_deref()),
                state.version(),
            )
        });
        let events: Vec<Value> = found
            .iter()
            .filter(|object| self.selects(object))
            .map(|object| self.event("ADDED", object))
            .collect();
        self.pending.extend(events);
        self.cursor = version;
        if marked {
            let mut bookmark = self.bookmark();
            js::put(
                &mut bookmark,
                "/object/metadata/annotations",
                json!({"k8s.io/initial-events-end": "true"}),
            );
            self.pending.push_back(bookmark);
        }
    }

    fn selects(&self, object: &Value) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|wanted| js::namespace(object) == wanted)
            && self.labels.select(object)
            && self.fields.select(object)
    }

    fn event(&self, kind: &str, object: &Arc<Value>) -> Value {
        let object = match self.shape {
            Shape::Object => (**object).clone(),
            Shape::Metadata => table::metadata_only(object),
            Shape::Table => {
                let version = js::text(object, "/metadata/resourceVersion");
                table::table(self.resource, std::slice::from_ref(object), version, self.include)
            }
        };
        json!({"type": kind, "object": object})
    }

    fn bookmark(&self) -> Value {
        let metadata = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        let object = match self.shape {
            Shape::Table => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "columnDefinitions": null, "rows": []}),
            _ => {
                json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata})
            }
        };
        json!({"type": "BOOKMARK", "object": object})
    }

    fn take(&mut self, change: &Change) {
        if change.resource != self.resource {
            return;
        }
        let chosen = |object: &Option<Arc<Value>>| object.clone().filter(|object| self.selects(object));
        let event = match (chosen(&change.before), chosen(&change.after)) {
            (None, Some(after)) => self.event("ADDED", &after),
            (Some(_), Some(after)) => self.event("MODIFIED", &after),
            // An object that leaves the selection is told as deleted, in its new form.
            (Some(before), None) => self.event("DELETED", change.after.as_ref().unwrap_or(&before)),
            (None, None) => return,
        };
        self.pending.push_back(event);
    }

    /// The next lines, or nothing more.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.app.while_hung().await;
            if !self.pending.is_empty() {
                let mut lines = Vec::new();
                for event in self.pending.drain(..) {
                    serde_json::to_writer(&mut lines, &event).ok()?;
                    lines.push(b'\n');
                }
                return Some(Bytes::from(lines));
            }
            if self.over {
                return None;
            }
            self.changes.mark_unchanged();
            let news = self
                .app
                .store
                .with(|state| state.since(self.cursor).map(|all| (all, state.version())));
            if let Some((changes, version)) = news {
                for change in &changes {
                    self.take(change);
                }
                self.cursor = self.cursor.max(version);
            } else {
                let status = Status::new(
                    410,
                    "Expired",
                    format!("too old resource version: {}", self.cursor),
                );
                self.pending
                    .push_back(json!({"type": "ERROR", "object": status.body()}));
                self.over = true;
            }
            if self.pending.is_empty() {
                self.wait().await;
            }
        }
    }

    async fn wait(&mut self) {
        let stop = self.app.stop.clone();
        tokio::select! {
            () = stop.cancelled() => self.over = true,
            () = tokio::time::sleep_until(self.ends) => self.over = true,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                self.next_bookmark += BOOKMARK_EVERY;
                let bookmark = self.bookmark();
                self.pending.push_back(bookmark);
            }
            changed = self.changes.changed() => self.over = changed.is_err(),
        }
    }
}
