//! The HTTP side: who asks, where the path leads, and how an answer looks on the wire.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::discovery::{self, Form};
use super::error::Status;
use super::handlers;
use super::pki::KubePki;
use super::request::{Ask, Target};
use super::store::Store;

/// The most that a request body may have, as on a real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// What a request needs.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Arc<Store>,
    pub(crate) pki: KubePki,
    pub(crate) version: String,
    pub(crate) hung: watch::Sender<bool>,
    pub(crate) stop: CancellationToken,
}

impl App {
    /// Waits while the server plays dead.
    pub(crate) async fn while_hung(&self) {
        let mut hung = self.hung.subscribe();
        let _closed = hung.wait_for(|hung| !*hung).await;
    }
}

/// The routes: one handler, as the paths are data.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new().fallback(serve).with_state(app)
}

async fn serve(State(app): State<Arc<App>>, request: Request) -> Response<Body> {
    app.while_hung().await;
    let (parts, body) = request.into_parts();
    let ask = Ask::read(parts.method, &parts.uri, &parts.headers);
    let answer = match axum::body::to_bytes(body, BODY_LIMIT).await {
        Ok(body) => route(&app, &ask, &body),
        Err(_) => Err(Status::new(
            413,
            "RequestEntityTooLarge",
            "the body of the request was too large",
        )),
    };
    answer.unwrap_or_else(|status| reply(&ask, status.code, &status.body()))
}

fn route(app: &Arc<App>, ask: &Ask, body: &Bytes) -> Result<Response<Body>, Status> {
    let segments: Vec<&str> = ask.path.split('/').filter(|part| !part.is_empty()).collect();
    authenticate(app, ask, &segments)?;
    let form = Form::wanted(&ask.accept);
    match segments.as_slice() {
        [] => Ok(reply(
            ask,
            200,
            &json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/readyz", "/version"]}),
        )),
        ["healthz" | "livez" | "readyz", ..] => Ok(health(ask, &segments)),
        ["version"] => Ok(reply(ask, 200, &version(&app.version))),
        ["api"] => Ok(typed(ask, 200, &discovery::core(form), &form.content_type())),
        ["apis"] => Ok(typed(ask, 200, &discovery::groups(form), &form.content_type())),
        ["openapi", "v2"] if ask.accept.contains("protobuf") => Ok(bytes(
            200,
            discovery::OPENAPI_V2_PROTOBUF.to_vec(),
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        )),
        ["openapi", "v2"] => {
            let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": app.version}, "paths": {}});
            Ok(reply(ask, 200, &document))
        }
        ["openapi", "v3"] => Ok(reply(ask, 200, &discovery::openapi_index())),
        ["openapi", "v3", rest @ ..] => discovery::openapi_of(&rest.join("/"))
            .map(|document| reply(ask, 200, &document))
            .ok_or_else(Status::no_such_path),
        ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"] => {
            // Whoever has a credential may do everything here, so the question need not be read.
            let review = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                "metadata": {}, "spec": {}, "status": {"allowed": true}});
            Ok(reply(ask, 201, &review))
        }
        ["apis", group] => discovery::one_group(group)
            .map(|answer| reply(ask, 200, &answer))
            .ok_or_else(Status::no_such_path),
        ["api", version] => resources(ask, "", version),
        ["apis", group, version] => resources(ask, group, version),
        _ => {
            let target = Target::parse(&segments).ok_or_else(Status::no_such_path)?;
            handlers::handle(app, ask, &target, body)
        }
    }
}

fn resources(ask: &Ask, group: &str, version: &str) -> Result<Response<Body>, Status> {
    discovery::resource_list(group, version)
        .map(|answer| reply(ask, 200, &answer))
        .ok_or_else(Status::no_such_path)
}

/// A wrong token is refused everywhere; without one only the state of the server is told.
fn authenticate(app: &App, ask: &Ask, segments: &[&str]) -> Result<(), Status> {
    match &ask.token {
        Some(token) => app
            .pki
            .user_of(token)
            .map(|_| ())
            .ok_or_else(Status::unauthorized),
        None if matches!(segments, ["healthz" | "livez" | "readyz" | "version", ..]) => Ok(()),
        None => {
            let mut status = Status::new(
                403,
                "Forbidden",
                format!(
                    "forbidden: User \"system:anonymous\" cannot {} path \"{}\"",
                    verb(ask),
                    ask.path
                ),
            );
            status.details = json!({});
            Err(status)
        }
    }
}

fn verb(ask: &Ask) -> String {
    ask.method.as_str().to_lowercase()
}

fn version(git_version: &str) -> Value {
    let mut parts = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    json!({"major": major, "minor": minor, "gitVersion": git_version, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64"})
}

/// The checks that a 1.32 names, all of them well: this server serves only when it is ready.
const CHECKS: [&str; 32] = [
    "ping",
    "log",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

fn health(ask: &Ask, segments: &[&str]) -> Response<Body> {
    let name = segments.first().copied().unwrap_or("healthz");
    let checks = CHECKS
        .iter()
        .filter(|check| name == "readyz" || !["informer-sync", "shutdown"].contains(check));
    let text = if ask.flag("verbose") {
        let mut lines: Vec<String> = checks.map(|check| format!("[+]{check} ok")).collect();
        lines.push(format!("{name} check passed\n"));
        lines.join("\n")
    } else {
        "ok".to_owned()
    };
    bytes(200, text.into_bytes(), "text/plain; charset=utf-8")
}

/// An answer as JSON.
pub(crate) fn reply(ask: &Ask, code: u16, body: &Value) -> Response<Body> {
    typed(ask, code, body, "application/json")
}

fn typed(ask: &Ask, code: u16, body: &Value, content_type: &str) -> Response<Body> {
    let text = if ask.pretty {
        serde_json::to_vec_pretty(body)
    } else {
        serde_json::to_vec(body)
    };
    let mut text = text.unwrap_or_default();
    if !ask.pretty {
        text.push(b'\n');
    }
    bytes(code, text, content_type)
}

/// An answer with any body.
pub(crate) fn bytes(code: u16, body: impl Into<Body>, content_type: &str) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    if let Ok(value) = HeaderValue::from_str(&super::time::fresh_uid()) {
        headers.insert("audit-id", value);
    }
    response
}
