//! What can go wrong: the API's `Status`, and the errors of the lab's own functions.

use serde_json::{Value, json};
use thiserror::Error;

use super::resources::Resource;

/// Why the lab's Kubernetes could not do what was asked through its functions.
#[derive(Debug, Error)]
pub enum LabKubeError {
    /// The listener could not be opened.
    #[error("cannot listen on {address}: choose a free loopback address")]
    Listen {
        /// The address that was asked for.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Certificates could not be made or read.
    #[error("cannot make or read the cluster's certificates: {0}")]
    Pki(String),
    /// A saved cluster could not be read back.
    #[error("cannot restore the saved cluster: {0}")]
    Restore(String),
    /// A join token is unknown.
    #[error("join token {0} is unknown: make one with create_join_token")]
    UnknownToken(String),
    /// A join token has expired.
    #[error("join token {0} has expired: make a new one")]
    ExpiredToken(String),
    /// A kubeconfig could not be read.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    /// The API refused.
    #[error("the Kubernetes API refused: {0}")]
    Api(#[from] Status),
}

/// A failure as the API answers it (`kind: Status`).
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason, may be empty.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// `details`, null if none.
    pub details: Value,
}

impl Status {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn about(resource: &Resource, name: &str) -> Value {
        if resource.group.is_empty() {
            json!({"name": name, "kind": resource.plural})
        } else {
            json!({"name": name, "group": resource.group, "kind": resource.plural})
        }
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let mut status = Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", resource.qualified()),
        );
        status.details = Self::about(resource, name);
        status
    }

    pub(crate) fn no_such_path() -> Self {
        let mut status = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        status.details = json!({});
        status
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let mut status = Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", resource.qualified()),
        );
        status.details = Self::about(resource, name);
        status
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            resource.qualified()
        );
        let mut status = Self::new(409, "Conflict", message);
        status.details = Self::about(resource, name);
        status
    }

    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = json!({});
        status
    }

    /// 422: one field is wrong.
    pub(crate) fn invalid(resource: &Resource, name: &str, field: &str, kind: FieldFault, why: &str) -> Self {
        let kind_name = if resource.group.is_empty() {
            resource.kind.to_owned()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let text = format!("{}: {why}", kind.words());
        let mut status = Self::new(
            422,
            "Invalid",
            format!("{kind_name} \"{name}\" is invalid: {field}: {text}"),
        );
        let mut details = json!({"name": name, "group": resource.group, "kind": resource.kind,
            "causes": [{"reason": kind.reason(), "message": text, "field": field}]});
        if resource.group.is_empty() {
            super::json::take(&mut details, "/group");
        }
        status.details = details;
        status
    }

    pub(crate) fn terminating_namespace(resource: &Resource, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            resource.qualified()
        );
        let mut status = Self::new(403, "Forbidden", message);
        status.details = Self::about(resource, name);
        super::json::put(
            &mut status.details,
            "/causes",
            json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
                    "message": format!("namespace {namespace} is being terminated")}]),
        );
        status
    }

    /// The object that goes over the wire.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message});
        if !self.reason.is_empty() {
            super::json::put(&mut body, "/reason", json!(self.reason));
        }
        if !self.details.is_null() {
            super::json::put(&mut body, "/details", self.details.clone());
        }
        super::json::put(&mut body, "/code", json!(self.code));
        body
    }
}

/// In which way a field is wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldFault {
    Required,
    Invalid,
}

impl FieldFault {
    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
        }
    }
}
