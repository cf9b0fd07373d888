//! Tests of the API in process: the wire's conformance with literal bytes, admission, visibility, documents.
//!
//! What this must not know: how the service is put together.

mod admission;
mod documents;
mod doubles;
mod lists;
mod settings;
mod wire;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use secrecy::{SecretSlice, SecretString};
use serde_json::Value;
use sqlx::PgPool;
use tower::ServiceExt;
use uuid::Uuid;

use super::{ApiOptions, ApiState, router};
use crate::db::accounts;
use crate::db::secrets::Cipher;
use crate::domain::id::{OfferingId, TemplateId, UserId};
use crate::ports::cloud::{Offering, Template};
use crate::protocol::params::form_encode;
use crate::protocol::signature::sign;
use doubles::{CountingIds, FewFacts, StandingClock};

const WEB: &str = "00000000-0000-0000-0000-0000000000c1";

/// The service on a database of its own.
struct Service {
    router: Router,
    pool: PgPool,
    cloud: Arc<FewFacts>,
    clock: Arc<StandingClock>,
    cipher: Cipher,
}

/// What came back.
struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn offering(n: u128, name: &str, cpu: i64, memory_mb: i64) -> Offering {
    Offering {
        id: OfferingId(Uuid::from_u128(n)),
        name: name.to_owned(),
        cpu_number: Some(cpu),
        cpu_speed: Some(1000),
        memory_mb: Some(memory_mb),
        customized: false,
    }
}

async fn service(pool: PgPool) -> Service {
    service_with(pool, ApiOptions::default()).await
}

async fn service_with(pool: PgPool, options: ApiOptions) -> Service {
    let cipher = Cipher::new(&SecretSlice::from(vec![7; 32])).unwrap();
    let mut conn = pool.acquire().await.unwrap();
    for (n, name) in [(1, "admin"), (2, "ops"), (3, "other"), (4, "head"), (5, "hand")] {
        let user = UserId(Uuid::from_u128(0xb0 + n));
        let secret = SecretString::from(format!("SK-{name}"));
        accounts::set_keys(&mut conn, &cipher, user, &format!("AK-{name}"), &secret)
            .await
            .unwrap();
    }
    drop(conn);
    let cloud = Arc::new(FewFacts::default());
    for one in [
        offering(0x51, "medium", 2, 4096),
        offering(0x52, "large", 4, 8192),
        offering(0x53, "small", 2, 2048),
    ] {
        cloud.offerings.lock().unwrap().insert(one.id, one);
    }
    let template = TemplateId(Uuid::from_u128(0x7e));
    cloud.templates.lock().unwrap().insert(
        template,
        Template {
            id: template,
            name: "node".to_owned(),
            ready: true,
        },
    );
    let clock = Arc::new(StandingClock(Mutex::new("2026-01-02T03:04:05Z".parse().unwrap())));
    let router = router(ApiState {
        pool: pool.clone(),
        cipher: cipher.clone(),
        cloud: Arc::clone(&cloud) as _,
        clock: Arc::clone(&clock) as _,
        ids: Arc::new(CountingIds::default()),
        metrics: None,
        options,
    });
    Service {
        router,
        pool,
        cloud,
        clock,
        cipher,
    }
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

impl Service {
    /// Sends a request as it is.
    async fn send(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        Reply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap(),
        }
    }

    async fn get(&self, target: &str) -> Reply {
        self.send(Request::get(target).body(Body::empty()).unwrap()).await
    }

    /// Calls a command as somebody, in JSON.
    async fn call(&self, who: &str, command: &str, params: &[(&str, &str)]) -> Reply {
        let mut pairs = owned(&[("command", command), ("response", "json")]);
        pairs.push(("apiKey".to_owned(), format!("AK-{who}")));
        pairs.extend(owned(params));
        self.get(&format!("/client/api?{}", signed(&pairs, &format!("SK-{who}"))))
            .await
    }

    /// Calls a command that must succeed, and gives its body below the envelope.
    async fn ok(&self, who: &str, command: &str, params: &[(&str, &str)]) -> Value {
        let reply = self.call(who, command, params).await;
        assert_eq!(reply.status, 200, "{command}: {}", reply.body);
        reply.json()[format!("{}response", command.to_lowercase())].clone()
    }

    /// Calls a command that must be refused at once: code, class, text.
    async fn refused(&self, who: &str, command: &str, params: &[(&str, &str)]) -> (u16, i64, String) {
        let reply = self.call(who, command, params).await;
        let json = reply.json();
        let body = json.as_object().unwrap().values().next().unwrap().clone();
        assert_eq!(
            u64::from(reply.status),
            body["errorcode"].as_u64().unwrap_or(200),
            "{}",
            reply.body
        );
        (
            reply.status,
            body["cserrorcode"].as_i64().unwrap_or_default(),
            body["errortext"].as_str().unwrap_or_default().to_owned(),
        )
    }

    fn cloud_calls(&self) -> usize {
        self.cloud.calls.load(Ordering::SeqCst)
    }

    async fn state_of(&self, cluster: &str) -> (String, i64) {
        let row = sqlx::query!(
            "select state, generation from kubernetes_cluster where uuid = $1",
            cluster.parse::<Uuid>().unwrap()
        )
        .fetch_one(&self.pool)
        .await
        .unwrap();
        (row.state, row.generation)
    }
}

/// The query of signed pairs.
fn signed(pairs: &[(String, String)], secret: &str) -> String {
    let signature = sign(pairs, secret);
    let mut all = pairs.to_vec();
    all.push(("signature".to_owned(), signature));
    form_encode(&all)
}

fn post(target: &str, body: String) -> Request<Body> {
    Request::builder()
        .method(Method::POST)
        .uri(target)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(body))
        .unwrap()
}
