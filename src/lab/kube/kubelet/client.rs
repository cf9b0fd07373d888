//! The kubelet's way to its API server: a kubeconfig, HTTPS, JSON.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use reqwest::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::super::error::LabKubeError;
use super::super::json as js;

/// How long one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Why a call did not do what it should.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server answered with this status.
    Refused(u16),
    /// There was no good answer.
    Unreachable,
}

/// A client of one API server.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    server: String,
    token: String,
}

fn wrong(error: impl std::fmt::Display) -> LabKubeError {
    LabKubeError::Kubeconfig(error.to_string())
}

impl Client {
    /// Reads a kubeconfig: the server, its authority and the bearer token of the current context.
    pub(super) fn new(kubeconfig: &str) -> Result<Self, LabKubeError> {
        let config: Value = serde_yaml_ng::from_str(kubeconfig).map_err(wrong)?;
        let named = |list: &str, name: &str| {
            js::items(&config, list)
                .iter()
                .find(|item| js::text(item, "/name") == name)
                .cloned()
        };
        let context = named("/contexts", js::text(&config, "/current-context"))
            .ok_or_else(|| wrong("it has no current context"))?;
        let cluster = named("/clusters", js::text(&context, "/context/cluster"))
            .ok_or_else(|| wrong("the current context has no cluster"))?;
        let user = named("/users", js::text(&context, "/context/user"))
            .ok_or_else(|| wrong("the current context has no user"))?;
        let pem = base64::engine::general_purpose::STANDARD
            .decode(js::text(&cluster, "/cluster/certificate-authority-data"))
            .map_err(wrong)?;
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(wrong)?).map_err(wrong)?;
        }
        let tls =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(wrong)?
                .with_root_certificates(roots)
                .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .connect_timeout(CALL_LIMIT)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(wrong)?;
        Ok(Self {
            http,
            server: js::text(&cluster, "/cluster/server")
                .trim_end_matches('/')
                .to_owned(),
            token: js::text(&user, "/user/token").to_owned(),
        })
    }

    /// One call; the answer is an object.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.server))
            .bearer_auth(&self.token)
            .header("accept", "application/json")
            .timeout(CALL_LIMIT);
        if let Some(body) = body {
            let text = serde_json::to_vec(body).map_err(|_| Failure::Unreachable)?;
            request = request.header("content-type", content_type).body(text);
        }
        let answer = request.send().await.map_err(|_| Failure::Unreachable)?;
        let code = answer.status().as_u16();
        let text = answer.bytes().await.map_err(|_| Failure::Unreachable)?;
        if (200..300).contains(&code) {
            serde_json::from_slice(&text).map_err(|_| Failure::Unreachable)
        } else {
            Err(Failure::Refused(code))
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, "", None).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, "application/json", Some(body))
            .await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::PUT, path, "application/json", Some(body)).await
    }

    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(
            Method::PATCH,
            path,
            "application/strategic-merge-patch+json",
            Some(body),
        )
        .await
    }

    pub(super) async fn delete(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, "application/json", Some(body))
            .await
    }

    /// Opens a watch.
    pub(super) async fn watch(&self, path: &str) -> Result<reqwest::Response, Failure> {
        let request = self
            .http
            .get(format!("{}{path}", self.server))
            .bearer_auth(&self.token)
            .header("accept", "application/json");
        let answer = request.send().await.map_err(|_| Failure::Unreachable)?;
        match answer.status().as_u16() {
            200 => Ok(answer),
            code => Err(Failure::Refused(code)),
        }
    }
}
