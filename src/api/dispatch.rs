//! From an HTTP request to a command and back.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;

use super::commands::{self, Entry};
use super::context::Cx;
use super::{Api, ApiError, auth};
use crate::domain::account::{AccountRole, Caller};
use crate::protocol::command::Role;
use crate::protocol::envelope::render;
use crate::protocol::{Code, CsCode, Fault, Format, Params};

/// Greatest body: user data of 1 MiB in its encoded form fits.
const BODY_LIMIT: usize = 4 * 1024 * 1024;
/// The envelope of errors that belong to no command.
const ERROR_ROOT: &str = "errorresponse";
/// The header with the id of a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const DESCRIPTION: HeaderName = HeaderName::from_static("x-description");

/// `/client/api`: the command is a parameter.
pub async fn plain(State(api): State<Arc<Api>>, request: Request) -> Response {
    serve(api, request, None).await
}

/// `/client/api/{command}`: the command is in the path, and JSON is the default.
pub async fn alias(State(api): State<Arc<Api>>, Path(command): Path<String>, request: Request) -> Response {
    serve(api, request, Some(command)).await
}

/// What is sent back.
struct Answer {
    root: String,
    result: Result<serde_json::Value, Fault>,
    /// Whether the error was raised inside a command.
    described: bool,
}

impl Answer {
    fn refused(root: impl Into<String>, fault: Fault) -> Self {
        Self {
            root: root.into(),
            result: Err(fault),
            described: false,
        }
    }
}

async fn serve(api: Arc<Api>, request: Request, in_path: Option<String>) -> Response {
    let request_id = request_id(&api, &request);
    let (format, answer) = match read(request, in_path.as_deref()).await {
        Ok(params) => {
            let json_by_default = in_path.is_some() && params.exact("response").is_none();
            let format = if json_by_default {
                Format::Json
            } else {
                Format::of(params.exact("response"))
            };
            (format, answer(&api, params, request_id.clone()).await)
        }
        Err(fault) => (Format::Json, Answer::refused(ERROR_ROOT, fault)),
    };
    write(format, &answer, &request_id)
}

/// The id that the client or a proxy gave the request, if it is fit to be stored and logged; else a new one.
fn request_id(api: &Api, request: &Request) -> String {
    let given = request
        .headers()
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let fit = |id: &&str| (1..=128).contains(&id.len()) && id.chars().all(|c| c.is_ascii_graphic());
    given
        .filter(fit)
        .map_or_else(|| api.state.ids.ordered().to_string(), str::to_owned)
}

async fn read(request: Request, in_path: Option<&str>) -> Result<Params, Fault> {
    let malformed = |text: String| Fault::new(Code::Malformed, CsCode::ServerApi, text);
    let (parts, body) = request.into_parts();
    let body = if parts.method == Method::POST {
        to_bytes(body, BODY_LIMIT).await.map_err(|_| {
            malformed(format!(
                "the body cannot be read: it may have at most {BODY_LIMIT} bytes"
            ))
        })?
    } else {
        axum::body::Bytes::new()
    };
    let params =
        Params::decode(parts.uri.query(), Some(&body)).map_err(|error| malformed(error.to_string()))?;
    // The command of the path takes part in the signature like any other parameter, so that a signature for
    // one command never serves another.
    match in_path {
        Some(command) if params.exact("command").is_none() => {
            let named = std::iter::once(("command".to_owned(), command.to_owned()));
            Ok(Params::from_pairs(named.chain(params.pairs().iter().cloned())))
        }
        Some(command) if params.exact("command") != Some(command) => Err(malformed(
            "the path and the parameter command name different commands".to_owned(),
        )),
        _ => Ok(params),
    }
}

async fn answer(api: &Arc<Api>, params: Params, request_id: String) -> Answer {
    let name = params.exact("command").unwrap_or_default().to_owned();
    let entry = commands::find(&name).filter(|entry| entry.is_offered(&api.state.options));
    let root = entry.map_or_else(|| ERROR_ROOT.to_owned(), |entry| entry.command.root());
    let caller = match auth::authenticate(api, &params).await {
        Ok(caller) => caller,
        Err(error) => {
            error.log(&name);
            return Answer::refused(root, error.fault_for(None));
        }
    };
    let role = caller.account.role;
    let allowed = entry.filter(|entry| entry.command.allows(wire_role(role)));
    let Some(entry) = allowed else {
        let fault = Fault::not_available(&name, &caller.account.name);
        ApiError::from(fault.clone()).log(&name);
        return Answer {
            described: true,
            ..Answer::refused(ERROR_ROOT, fault)
        };
    };
    match run(api, entry, caller, params, request_id).await {
        Ok(body) => Answer {
            root,
            result: Ok(body),
            described: false,
        },
        Err(error) => {
            error.log(&name);
            Answer {
                described: true,
                ..Answer::refused(root, error.fault_for(Some(role)))
            }
        }
    }
}

async fn run(
    api: &Arc<Api>,
    entry: &'static Entry,
    caller: Caller,
    params: Params,
    request_id: String,
) -> Result<serde_json::Value, ApiError> {
    let now = api.state.clock.now();
    let settings = api.settings.get(&api.state.pool, now).await?;
    if caller.account.role != AccountRole::Admin {
        api.limiter.count(caller.account.key, &settings, now)?;
    }
    entry.command.check(&params)?;
    if entry.command.reply.is_async() && api.state.options.stopping.is_cancelled() {
        return Err(Fault::new(
            Code::Unavailable,
            CsCode::ServerApi,
            "the service is stopping and takes no new jobs: try again",
        )
        .into());
    }
    let cx = Cx {
        api: Arc::clone(api),
        caller,
        params,
        command: &entry.command,
        settings,
        request_id,
    };
    (entry.run)(&cx).await
}

/// The role as the declarations of commands name it.
#[must_use]
pub fn wire_role(role: AccountRole) -> Role {
    match role {
        AccountRole::Admin => Role::Admin,
        AccountRole::DomainAdmin => Role::DomainAdmin,
        AccountRole::User => Role::User,
    }
}

fn write(format: Format, answer: &Answer, request_id: &str) -> Response {
    let (status, body, description) = match &answer.result {
        Ok(body) => (StatusCode::OK, render(format, &answer.root, body), None),
        Err(fault) => {
            let status =
                StatusCode::from_u16(fault.code().number()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let description = answer.described.then(|| fault.text().replace(['\r', '\n'], " "));
            (status, render(format, &answer.root, &fault.body()), description)
        }
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("x-xss-protection", HeaderValue::from_static("1;mode=block"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(Ok(text)) = description.map(|text| HeaderValue::from_bytes(text.as_bytes())) {
        headers.insert(DESCRIPTION, text);
    }
    response
}
