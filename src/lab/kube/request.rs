//! A request as the handlers see it: query, what the client accepts, and the place that the path names.

use axum::http::{HeaderMap, Method, Uri, header};
use percent_encoding::percent_decode_str;

use super::error::Status;
use super::objects::Write;
use super::resources::{self, Resource};
use super::selector::{Fields, Labels};

/// In which shape a client wants objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Table,
    Metadata,
}

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) path: String,
    query: Vec<(String, String)>,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) token: Option<String>,
    pub(crate) pretty: bool,
}

impl Ask {
    pub(crate) fn read(method: Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let header = |name| {
            headers
                .get(name)
                .and_then(|value: &header::HeaderValue| value.to_str().ok())
                .unwrap_or("")
        };
        let decode = |text: &str| {
            percent_decode_str(&text.replace('+', " "))
                .decode_utf8_lossy()
                .into_owned()
        };
        let query: Vec<(String, String)> = uri
            .query()
            .unwrap_or("")
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(key, value)| (decode(key), decode(value)))
            .collect();
        let agent = header(header::USER_AGENT);
        let asked = query
            .iter()
            .find(|(key, _)| key == "pretty")
            .map(|(_, value)| value == "true" || value == "1");
        let pretty = asked.unwrap_or_else(|| {
            ["curl", "Wget", "Mozilla"]
                .iter()
                .any(|one| agent.starts_with(one))
        });
        Self {
            method,
            path: percent_decode_str(uri.path()).decode_utf8_lossy().into_owned(),
            query,
            accept: header(header::ACCEPT).to_owned(),
            content_type: header(header::CONTENT_TYPE).to_owned(),
            token: headers
                .get(header::AUTHORIZATION)
                .and_then(|value| value.to_str().ok())
                .map(|value| value.strip_prefix("Bearer ").unwrap_or("").trim().to_owned()),
            pretty,
        }
    }

    /// A value of the query.
    pub(crate) fn query(&self, key: &str) -> Option<String> {
        self.query
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
    }

    /// A yes-or-no value of the query.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.query(key).as_deref(), Some("true" | "1" | ""))
    }

    pub(crate) fn write(&self) -> Write {
        if self.query("dryRun").as_deref() == Some("All") {
            Write::Try
        } else {
            Write::Keep
        }
    }

    pub(crate) fn strict(&self) -> bool {
        self.query("fieldValidation").as_deref() == Some("Strict")
    }

    /// The first shape of the `Accept` header that is known here.
    pub(crate) fn shape(&self) -> Shape {
        for part in self.accept.split(',') {
            if part.contains("as=Table") {
                return Shape::Table;
            }
            if part.contains("as=PartialObjectMetadata") {
                return Shape::Metadata;
            }
            if part.trim() == "application/json" {
                return Shape::Object;
            }
        }
        Shape::Object
    }

    /// The selectors of the query.
    pub(crate) fn selectors(&self) -> Result<(Labels, Fields), Status> {
        let labels =
            Labels::parse(&self.query("labelSelector").unwrap_or_default()).map_err(Status::bad_request)?;
        let fields =
            Fields::parse(&self.query("fieldSelector").unwrap_or_default()).map_err(Status::bad_request)?;
        Ok((labels, fields))
    }
}

/// The place that a path names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) part: Option<String>,
}

impl Target {
    /// Reads `/api/v1/...` or `/apis/GROUP/VERSION/...`, already split.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, ..] if !["status", "finalize"].contains(plural) => {
                (Some((*namespace).to_owned()), rest.get(2..)?)
            }
            _ => (None, rest),
        };
        let (plural, name, part) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, part] => (plural, Some(name), Some(part)),
            _ => return None,
        };
        let resource = resources::by_path(group, version, plural)?;
        if resource.namespaced != namespace.is_some() && (namespace.is_some() || name.is_some()) {
            return None;
        }
        let own = |text: Option<&&str>| text.map(|text| (*text).to_owned());
        Some(Self {
            resource,
            namespace,
            name: own(name),
            part: own(part),
        })
    }

    /// The namespace, "" for a resource without one.
    pub(crate) fn home(&self) -> &str {
        self.namespace.as_deref().unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::kube::resources::{DEPLOYMENT, NAMESPACE, NODE, POD};

    fn parse(path: &str) -> Option<(&'static Resource, String, String, String)> {
        let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let target = Target::parse(&segments)?;
        let home = target.home().to_owned();
        Some((
            target.resource,
            home,
            target.name.unwrap_or_default(),
            target.part.unwrap_or_default(),
        ))
    }

    #[test]
    fn a_path_names_a_place() {
        let place = |resource, namespace: &str, name: &str, part: &str| {
            Some((resource, namespace.to_owned(), name.to_owned(), part.to_owned()))
        };
        assert_eq!(parse("/api/v1/nodes"), place(&NODE, "", "", ""));
        assert_eq!(parse("/api/v1/nodes/n/status"), place(&NODE, "", "n", "status"));
        assert_eq!(parse("/api/v1/pods"), place(&POD, "", "", ""));
        assert_eq!(
            parse("/api/v1/namespaces/a/pods/p/eviction"),
            place(&POD, "a", "p", "eviction")
        );
        assert_eq!(parse("/api/v1/namespaces/a"), place(&NAMESPACE, "", "a", ""));
        assert_eq!(
            parse("/api/v1/namespaces/a/finalize"),
            place(&NAMESPACE, "", "a", "finalize")
        );
        assert_eq!(
            parse("/apis/apps/v1/namespaces/a/deployments/d/scale"),
            place(&DEPLOYMENT, "a", "d", "scale")
        );
        assert_eq!(parse("/api/v1/pods/p"), None);
        assert_eq!(parse("/api/v1/namespaces/a/nodes"), None);
        assert_eq!(parse("/apis/apps/v1beta1/deployments"), None);
    }
}
