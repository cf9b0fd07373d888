//! Tests of the client against a small server with literal answers.
//!
//! What this must not know: the lab.

mod calls;
mod failures;
mod listing;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

use super::{CloudOptions, CloudStackClient};
use crate::adapters::system::SystemClock;
use crate::ports::clock::Clock as _;
use crate::ports::cloud::Cloud;
use crate::protocol::params::Params;
use crate::protocol::signature::{check_expiry, verify};

const SECRET: &str = "SK-test_1";

/// One request as the server saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) method: Method,
    pub(super) params: Params,
}

impl Seen {
    pub(super) fn get(&self, name: &str) -> &str {
        self.params.get(name).unwrap_or_default()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.params.get(name).is_some()
    }
}

type Answers = Box<dyn Fn(&Seen) -> (u16, String) + Send + Sync>;

pub(super) struct World {
    seen: Mutex<Vec<Seen>>,
    answers: Answers,
}

impl World {
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn one(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

/// A server that answers so, and a client of it. Every request must be signed and unexpired.
pub(super) async fn cloud(
    answers: impl Fn(&Seen) -> (u16, String) + Send + Sync + 'static,
) -> (Arc<dyn Cloud>, Arc<World>) {
    let world = Arc::new(World {
        seen: Mutex::default(),
        answers: Box::new(answers),
    });
    let router = Router::new()
        .route("/client/api", axum::routing::any(serve))
        .with_state(Arc::clone(&world));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (client(&format!("http://{address}/client/api")), world)
}

pub(super) fn client(endpoint: &str) -> Arc<dyn Cloud> {
    CloudStackClient::new(CloudOptions {
        endpoint: endpoint.to_owned(),
        api_key: "ak-test_1".to_owned(),
        secret_key: SECRET.to_owned().into(),
        timeout: Duration::from_secs(2),
        ca_pem: None,
    })
    .unwrap()
}

async fn serve(
    State(world): State<Arc<World>>,
    method: Method,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let params = Params::decode(query.as_deref(), (!body.is_empty()).then_some(&body[..])).unwrap();
    let seen = Seen { method, params };
    let pairs = seen.params.pairs();
    if !verify(pairs, SECRET, seen.get("signature")) || check_expiry(pairs, SystemClock.now()).is_err() {
        return StatusCode::IM_A_TEAPOT.into_response();
    }
    world.seen.lock().unwrap().push(seen.clone());
    let (status, text) = (world.answers)(&seen);
    if status == 0 {
        // Never answers.
        std::future::pending::<()>().await;
    }
    (
        StatusCode::from_u16(status).unwrap(),
        [("content-type", "application/json; charset=UTF-8")],
        text,
    )
        .into_response()
}

pub(super) fn id<T: From<uuid::Uuid>>(n: u128) -> T {
    T::from(uuid::Uuid::from_u128(n))
}
