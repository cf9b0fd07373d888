//! Sending a signed request and telling its failures apart.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::CloudOptions;
use crate::adapters::system::SystemClock;
use crate::ports::clock::Clock as _;
use crate::ports::cloud::{CloudError, CloudErrorKind};
use crate::ports::fault::{Effect, Retry};
use crate::protocol::params::form_encode;
use crate::protocol::signature::sign;

/// The largest answer that is read. A page of 500 machines with all details is about 5 MiB.
const ANSWER_LIMIT: usize = 32 << 20;
/// How long a signed request is good for; the server takes at most 15 minutes.
const EXPIRES: Duration = Duration::from_mins(10);
/// How much of an answer that is no JSON an error shows.
const SHOWN: usize = 200;

/// Whether a command changes something: by its name, as CloudStack has them.
fn mutates(command: &str) -> bool {
    !["list", "get", "query", "find"]
        .iter()
        .any(|verb| command.starts_with(verb))
}

/// Request parameters in the order in which they were added.
pub(super) type Params = Vec<(String, String)>;

/// The transport.
pub(super) struct Wire {
    http: reqwest::Client,
    endpoint: reqwest::Url,
    api_key: String,
    secret_key: SecretString,
}

impl Wire {
    pub(super) fn new(options: CloudOptions) -> Result<Self, String> {
        // The process may have a provider already; then that one serves.
        rustls::crypto::ring::default_provider().install_default().ok();
        let endpoint = reqwest::Url::parse(&options.endpoint)
            .map_err(|e| format!("the cloud's endpoint {:?} is no URL: {e}", options.endpoint))?;
        if !matches!(endpoint.scheme(), "http" | "https") || endpoint.query().is_some() {
            return Err(format!(
                "the cloud's endpoint {:?} must be an http or https URL without a query, for example \
                 https://cloud.example/client/api",
                options.endpoint
            ));
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(options.timeout.min(Duration::from_secs(10)))
            .timeout(options.timeout)
            // A redirected POST would turn into a GET, and the signature is for this host's key only.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("cksd/", env!("CARGO_PKG_VERSION")));
        if endpoint.scheme() == "http" {
            // Without TLS no root certificates are needed, and a machine may have none.
            builder = builder.tls_certs_only([]);
        }
        if let Some(pem) = &options.ca_pem {
            let certificates = reqwest::Certificate::from_pem_bundle(pem.as_bytes())
                .map_err(|e| format!("the certificates for the cloud cannot be read: {e}"))?;
            if certificates.is_empty() {
                return Err(
                    "the certificates for the cloud hold no PEM block; give a file with some".to_owned(),
                );
            }
            builder = builder.tls_certs_only(certificates);
        }
        if is_loopback(&endpoint) {
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|e| format!("no client for the cloud: {}", chain(&e)))?;
        Ok(Self {
            http,
            endpoint,
            api_key: options.api_key,
            secret_key: options.secret_key,
        })
    }

    /// The key with which requests are signed.
    pub(super) fn api_key(&self) -> &str {
        &self.api_key
    }

    /// The body of a signed request, for the query or the form.
    fn signed(&self, command: &str, params: &[(String, String)]) -> String {
        let expires = SystemClock.now() + EXPIRES;
        let mut all: Params = vec![
            ("command".to_owned(), command.to_owned()),
            ("response".to_owned(), "json".to_owned()),
            ("apiKey".to_owned(), self.api_key.clone()),
            ("signatureVersion".to_owned(), "3".to_owned()),
            (
                "expires".to_owned(),
                expires.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string(),
            ),
        ];
        all.extend(params.iter().cloned());
        let signature = sign(&all, self.secret_key.expose_secret());
        all.push(("signature".to_owned(), signature));
        form_encode(&all)
    }

    /// Calls a command and gives what stands in its envelope.
    pub(super) async fn call(&self, command: &str, params: &[(String, String)]) -> Result<Value, CloudError> {
        let fail = Failure {
            command,
            unknown: if mutates(command) {
                Effect::MayHaveHappened
            } else {
                Effect::DidNotHappen
            },
        };
        let signed = self.signed(command, params);
        let request = if mutates(command) {
            self.http
                .post(self.endpoint.clone())
                .header("content-type", "application/x-www-form-urlencoded")
                .body(signed)
        } else {
            let mut url = self.endpoint.clone();
            url.set_query(Some(&signed));
            self.http.get(url)
        };
        let mut response = request.send().await.map_err(|e| fail.network(&e))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| fail.network(&e))? {
            if body.len() + chunk.len() > ANSWER_LIMIT {
                return Err(fail.unreadable(format!("its answer is larger than {} MiB", ANSWER_LIMIT >> 20)));
            }
            body.extend_from_slice(&chunk);
        }
        tracing::debug!(
            cloud.command = command,
            http.status = status,
            bytes = body.len(),
            "called the cloud"
        );
        read(&fail, status, &body)
    }
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// Makes the errors of one call.
struct Failure<'a> {
    command: &'a str,
    /// What may have happened when no answer tells.
    unknown: Effect,
}

impl Failure<'_> {
    fn error(&self, text: String, kind: CloudErrorKind, effect: Effect, retry: Retry) -> CloudError {
        CloudError {
            command: self.command.to_owned(),
            text,
            kind,
            effect,
            retry,
        }
    }

    fn network(&self, error: &reqwest::Error) -> CloudError {
        // The URL holds the key and the signature.
        let effect = if error.is_connect() || error.is_builder() {
            Effect::DidNotHappen
        } else {
            self.unknown
        };
        let text = if error.is_timeout() && !error.is_connect() {
            "the cloud did not answer in time".to_owned()
        } else {
            format!("the cloud cannot be reached: {}", chain(error))
        };
        self.error(text, CloudErrorKind::Away, effect, Retry::Soon)
    }

    fn unreadable(&self, text: String) -> CloudError {
        self.error(text, CloudErrorKind::Unreadable, self.unknown, Retry::Later)
    }

    /// An error in CloudStack's own words.
    fn answer(&self, code: i64, text: String) -> CloudError {
        let unknown_object = text.contains("due to incorrect long value format, or entity does not exist")
            || text.to_ascii_lowercase().contains("unable to find");
        let kind = match code {
            401 | 432 | 531 => CloudErrorKind::Refused,
            431 if unknown_object => CloudErrorKind::NotFound,
            code => CloudErrorKind::Answer(code),
        };
        // A submit that fails inside may have left a record, as a deployment does; what is refused has not.
        let effect = match code {
            530 | 533 | 534 | 535 => self.unknown,
            _ => Effect::DidNotHappen,
        };
        let retry = match code {
            429 | 503 | 530 => Retry::Soon,
            401 | 432 | 531..=536 => Retry::Later,
            _ => Retry::Never,
        };
        self.error(text, kind, effect, retry)
    }
}

/// The causes of an error without the URL.
fn chain(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    if causes.is_empty() {
        "no cause is known".to_owned()
    } else {
        causes.join(": ")
    }
}

/// Reads an answer: the one member whose name ends in `response`, or an error.
fn read(fail: &Failure<'_>, status: u16, body: &[u8]) -> Result<Value, CloudError> {
    let envelope: Option<Value> = serde_json::from_slice(body).ok();
    let Some(Value::Object(envelope)) = envelope else {
        let start: String = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
        let text = format!("HTTP {status}, and no JSON: {}", start.trim());
        // What a proxy says when the cloud behind it is away.
        return Err(match status {
            503 => fail.error(text, CloudErrorKind::Away, Effect::DidNotHappen, Retry::Soon),
            502 | 504 => fail.error(text, CloudErrorKind::Away, fail.unknown, Retry::Soon),
            _ => fail.unreadable(text),
        });
    };
    let expected = format!("{}response", fail.command.to_ascii_lowercase());
    let inner = envelope
        .get(&expected)
        .or_else(|| {
            envelope
                .iter()
                .find(|(name, _)| name.ends_with("response"))
                .map(|(_, value)| value)
        })
        .cloned()
        .unwrap_or(Value::Null);
    let code = inner.get("errorcode").and_then(Value::as_i64);
    if status != 200 || (code.is_some() && inner.get("jobid").is_none()) {
        let text = inner
            .get("errortext")
            .and_then(Value::as_str)
            .unwrap_or("no text");
        return Err(fail.answer(code.unwrap_or_else(|| i64::from(status)), text.to_owned()));
    }
    if inner.is_object() {
        return Ok(inner);
    }
    Err(fail.unreadable(format!("its answer has no member {expected}")))
}

/// An error about an answer of a command that was readable JSON but not what was expected.
pub(super) fn unexpected(command: &str, text: impl Into<String>) -> CloudError {
    let effect = if mutates(command) {
        Effect::MayHaveHappened
    } else {
        Effect::DidNotHappen
    };
    CloudError {
        command: command.to_owned(),
        text: text.into(),
        kind: CloudErrorKind::Unreadable,
        effect,
        retry: Retry::Later,
    }
}
