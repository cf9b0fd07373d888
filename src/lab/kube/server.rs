//! The server of one cluster: listener, controllers, and direct access for scenarios and tests.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::controllers;
use super::delete::{self, DeleteOptions};
use super::error::{LabKubeError, Status};
use super::http::{self, App};
use super::json as js;
use super::objects::{self, Write};
use super::options::{KubeOptions, KubeTimings};
use super::patch::Patch;
use super::pki::{KubePki, random_text};
use super::resources::{self, NAMESPACE, Resource, SECRET};
use super::store::{State, Store};
use super::time;

/// A running mini Kubernetes API with its controllers.
#[derive(Debug)]
pub struct KubeServer {
    app: Arc<App>,
    address: SocketAddr,
    timings: KubeTimings,
    handle: Handle<SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl KubeServer {
    /// Opens the listener and starts the controllers.
    pub async fn start(options: KubeOptions) -> Result<Self, LabKubeError> {
        let listen_error = |source| LabKubeError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).map_err(listen_error)?;
        listener.set_nonblocking(true).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let mut names = vec![
            address.ip().to_string(),
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            "kubernetes".to_owned(),
        ];
        names.extend(options.server_names.iter().cloned());
        names.dedup();
        let pki = match options.pki.clone() {
            Some(mut pki) => {
                pki.cover(&names)?;
                pki
            }
            None => KubePki::generate(&names)?,
        };
        let tls = tls_config(&pki)?;
        let mut state = State::default();
        if let Some(saved) = &options.restore {
            restore(&mut state, saved)?;
        }
        begin(&mut state);
        let stop = CancellationToken::new();
        let app = Arc::new(App {
            store: Arc::new(Store::new(state)),
            pki,
            version: options.version.clone(),
            hung: watch::Sender::new(false),
            stop: stop.clone(),
        });
        let handle = Handle::new();
        let server = axum_server::from_tcp_rustls(listener, tls)
            .map_err(listen_error)?
            .handle(handle.clone());
        let router = http::router(app.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = server.serve(router.into_make_service()).await {
                tracing::error!(%error, "the lab's Kubernetes API stopped");
            }
        });
        let controlling = tokio::spawn(controllers::run(
            app.store.clone(),
            options.timings.clone(),
            stop.clone(),
        ));
        // Once it listens, whoever has the address can come.
        handle.listening().await;
        let tasks = vec![serving, controlling];
        Ok(Self {
            app,
            address,
            timings: options.timings,
            handle,
            stop,
            tasks,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `https://` and the address it listens on.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Certificates and credentials, to be kept for a later start.
    pub fn pki(&self) -> &KubePki {
        &self.app.pki
    }

    /// How fast things happen here.
    pub fn timings(&self) -> &KubeTimings {
        &self.timings
    }

    /// The administrator's kubeconfig for a URL by which the server can be reached.
    pub fn kubeconfig(&self, server_url: &str) -> String {
        self.app
            .pki
            .kubeconfig(server_url, "kubernetes-admin", &self.app.pki.admin_token)
    }

    /// Makes a join token that is good for a time. It is a Secret in `kube-system`, as kubeadm keeps it.
    pub fn create_join_token(&self, ttl: Duration) -> String {
        let (id, secret) = (random_text(6), random_text(16));
        let object = json!({
            "metadata": {"name": format!("bootstrap-token-{id}")},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {"token-id": id, "token-secret": secret, "expiration": time::seconds(time::now() + ttl),
                "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
                "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"},
        });
        let made = self
            .app
            .store
            .with(|state| objects::create(state, &SECRET, "kube-system", object, Write::Keep));
        if let Err(error) = made {
            tracing::error!(%error, "a join token could not be stored");
        }
        format!("{id}.{secret}")
    }

    /// The hash of the authority's key, as `kubeadm token create --print-join-command` shows it.
    pub fn ca_cert_hash(&self) -> String {
        self.app.pki.ca_cert_hash()
    }

    /// Exchanges a valid join token for a kubelet's kubeconfig.
    pub fn join(&self, token: &str, node_name: &str, server_url: &str) -> Result<String, LabKubeError> {
        let unknown = || LabKubeError::UnknownToken(token.split('.').next().unwrap_or("").to_owned());
        let (id, secret) = token.split_once('.').ok_or_else(unknown)?;
        let stored = self
            .app
            .store
            .with(|state| state.get(&SECRET, "kube-system", &format!("bootstrap-token-{id}")));
        let stored = stored.ok_or_else(unknown)?;
        if decoded(&stored, "token-secret") != secret {
            return Err(unknown());
        }
        if time::parse(&decoded(&stored, "expiration")).is_none_or(|end| end < time::now()) {
            return Err(LabKubeError::ExpiredToken(id.to_owned()));
        }
        let user = format!("system:node:{node_name}");
        Ok(self
            .app
            .pki
            .kubeconfig(server_url, &user, &self.app.pki.kubelet_token(node_name)))
    }

    /// All objects, for the lab's saved world.
    pub fn snapshot(&self) -> Value {
        self.app.store.with(|state| state.snapshot())
    }

    /// Plays dead: connections are taken but nothing is answered, until it is set back.
    pub fn set_hung(&self, hung: bool) {
        self.app.hung.send_replace(hung);
    }

    /// Closes the listener, ends all connections, and stops the controllers.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.handle.shutdown();
        for task in std::mem::take(&mut self.tasks) {
            if task.await.is_err() {
                tracing::warn!("a task of the lab's Kubernetes API ended badly");
            }
        }
    }

    /// Creates an object; it says itself what and where it is.
    pub fn create(&self, object: Value) -> Result<Value, LabKubeError> {
        let resource = resource_of(&object)?;
        let namespace = home(resource, js::namespace(&object));
        let made = self
            .app
            .store
            .with(|state| objects::create(state, resource, &namespace, object, Write::Keep))?;
        Ok((*made).clone())
    }

    /// Reads an object; `kind` is a plural (`nodes`, `deployments`), the namespace "" where there is none.
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Value, LabKubeError> {
        let resource = by_plural(kind)?;
        let found = self
            .app
            .store
            .with(|state| objects::get(state, resource, &home(resource, namespace), name))?;
        Ok((*found).clone())
    }

    /// Lists objects of a plural kind, in one namespace or (`None`) in all.
    pub fn list(&self, kind: &str, namespace: Option<&str>) -> Result<Vec<Value>, LabKubeError> {
        let resource = by_plural(kind)?;
        let found = self.app.store.with(|state| state.list(resource, namespace));
        Ok(found.iter().map(|object| (**object).clone()).collect())
    }

    /// Applies a merge patch to an object.
    pub fn patch(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, LabKubeError> {
        let resource = by_plural(kind)?;
        let patched = self.app.store.with(|state| {
            let part = objects::Part::Main;
            objects::patch(
                state,
                resource,
                &home(resource, namespace),
                name,
                part,
                &Patch::Merge(patch),
                Write::Keep,
            )
        })?;
        Ok((*patched).clone())
    }

    /// Deletes an object as a client would, with its own grace period.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), LabKubeError> {
        let resource = by_plural(kind)?;
        let options = DeleteOptions::default();
        self.app
            .store
            .with(|state| delete::delete(state, resource, &home(resource, namespace), name, &options))?;
        Ok(())
    }
}

impl Drop for KubeServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.handle.shutdown();
    }
}

fn decoded(secret: &Value, field: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(js::text(secret, &format!("/data/{field}")))
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default()
}

fn by_plural(kind: &str) -> Result<&'static Resource, Status> {
    resources::ALL
        .into_iter()
        .find(|item| item.plural == kind)
        .ok_or_else(|| Status::bad_request(format!("the server doesn't have a resource type \"{kind}\"")))
}

fn resource_of(object: &Value) -> Result<&'static Resource, Status> {
    let (version, kind) = (js::text(object, "/apiVersion"), js::text(object, "/kind"));
    resources::by_kind(version, kind).ok_or_else(|| {
        Status::bad_request(format!("no matches for kind \"{kind}\" in version \"{version}\""))
    })
}

fn home(resource: &Resource, namespace: &str) -> String {
    match (resource.namespaced, namespace) {
        (false, _) => String::new(),
        (true, "") => "default".to_owned(),
        (true, namespace) => namespace.to_owned(),
    }
}

/// What every cluster has from the start.
fn begin(state: &mut State) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        if state.get(&NAMESPACE, "", name).is_none() {
            let object = json!({"metadata": {"name": name}});
            drop(objects::create(state, &NAMESPACE, "", object, Write::Keep));
        }
    }
}

fn restore(state: &mut State, saved: &Value) -> Result<(), LabKubeError> {
    let Some(all) = saved.get("objects").and_then(Value::as_array) else {
        return Err(LabKubeError::Restore(
            "it has no list named \"objects\"".to_owned(),
        ));
    };
    for object in all {
        let resource = resource_of(object).map_err(|error| LabKubeError::Restore(error.to_string()))?;
        state.put_back(resource, object.clone());
    }
    state.resume_at(saved.get("resourceVersion").and_then(Value::as_u64).unwrap_or(0));
    Ok(())
}

fn tls_config(pki: &KubePki) -> Result<RustlsConfig, LabKubeError> {
    let wrong = |error: &dyn std::fmt::Display| LabKubeError::Pki(error.to_string());
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(pki.server_cert_pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(&error))?;
    let key = PrivateKeyDer::from_pem_slice(pki.server_key_pem.as_bytes()).map_err(|error| wrong(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(RustlsConfig::from_config(Arc::new(config)))
}
