//! The HTTP side of the lab's cloud: signature, dispatch, faults, envelope.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, DefaultBodyLimit, RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::Value;

use super::Cloud;
use super::call::{Call, Caller, Reply};
use super::door::Cut;
use super::fault::of_code;
use super::registry::{self, Command, Run};
use crate::lab::clock;
use crate::lab::faults::{FaultKind, FaultPoint, delay_of};
use crate::protocol::{Code, CsCode, Fault, Format, Params, envelope, job, signature};

/// The routes of the API.
pub(crate) fn router(cloud: Arc<Cloud>) -> Router {
    Router::new()
        .route("/client/api", get(serve).post(serve))
        .route("/client/api/", get(serve).post(serve))
        .layer(DefaultBodyLimit::max(4 << 20))
        .with_state(cloud)
}

async fn serve(
    State(cloud): State<Arc<Cloud>>,
    ConnectInfo(cut): ConnectInfo<Cut>,
    method: Method,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Response {
    let form = (method == Method::POST).then_some(body.as_ref());
    let params = match Params::decode(query.as_deref(), form) {
        Ok(params) => params,
        Err(error) => {
            let fault = Fault::new(Code::Malformed, CsCode::ServerApi, error.to_string());
            return answer(Format::Json, "errorresponse", Err(fault));
        }
    };
    let format = Format::of(params.exact("response"));
    match admit(&cloud, &params) {
        Ok((command, caller)) => {
            let call = Call {
                command: command.name,
                params: &params,
                caller,
                post: method == Method::POST,
            };
            let done = cloud.answer(command, &call, &cut).await;
            answer(format, &envelope::root_of(command.name), done)
        }
        Err((root, fault)) => answer(format, &root, Err(fault)),
    }
}

/// Whose request it is and for which command; the refusal comes with its envelope key.
fn admit(cloud: &Cloud, params: &Params) -> Result<(&'static Command, Caller), (String, Fault)> {
    let command = params.exact("command").and_then(registry::find);
    let root = command.map_or_else(
        || "errorresponse".to_owned(),
        |known| envelope::root_of(known.name),
    );
    let refuse = || (root.clone(), Fault::unauthenticated());
    let key = params.get("apikey").ok_or_else(refuse)?;
    let given = params.get("signature").ok_or_else(refuse)?;
    let found = cloud.read(|state| {
        let user = state.users.iter().find(|user| user.api_key == key)?;
        let caller = Caller::of(state, user)?;
        let account = state.account(user.account)?.name.clone();
        Some((caller, user.secret_key.clone(), account))
    });
    let (caller, secret, account) = found.ok_or_else(refuse)?;
    let signed = signature::verify(params.pairs(), &secret, given)
        && signature::check_expiry(params.pairs(), clock::now()).is_ok();
    let command = command.filter(|_| signed).ok_or_else(refuse)?;
    if command.admin && !caller.is_admin() {
        return Err((
            "errorresponse".to_owned(),
            Fault::not_available(command.name, &account),
        ));
    }
    params.check().map_err(|fault| (root.clone(), fault))?;
    Ok((command, caller))
}

impl Cloud {
    /// Runs a command, with the faults that strike it.
    async fn answer(self: &Arc<Self>, command: &Command, call: &Call<'_>, cut: &Cut) -> Result<Value, Fault> {
        let values: Vec<&str> = call
            .params
            .pairs()
            .iter()
            .map(|(_, value)| value.as_str())
            .collect();
        let struck = self.faults.strike(command.name, FaultPoint::Request, &values);
        clock::pause(delay_of(&struck)).await;
        for kind in &struck {
            match kind {
                FaultKind::FailBefore { code, text } => return Err(of_code(*code, text.clone())),
                FaultKind::DropBefore => {
                    cut.cut();
                    return Ok(Value::Null);
                }
                _ => {}
            }
        }
        let done = self.execute(command, call);
        for kind in &struck {
            match kind {
                FaultKind::FailAfter { code, text } => return Err(of_code(*code, text.clone())),
                FaultKind::DropAfter => cut.cut(),
                _ => {}
            }
        }
        done
    }

    fn execute(self: &Arc<Self>, command: &Command, call: &Call<'_>) -> Result<Value, Fault> {
        let run = match command.run {
            Run::Read(run) => {
                return match self.read(|state| run(state, call))? {
                    Reply::Body(body) => Ok(body),
                    Reply::Submit { .. } => Err(super::fault::internal("a reading command makes no job")),
                };
            }
            Run::Write(run) => run,
        };
        let (body, started) = self.change(|state| -> Result<_, Fault> {
            match run(state, call)? {
                Reply::Body(body) => Ok((body, None)),
                Reply::Submit {
                    makes,
                    instance,
                    work,
                } => {
                    let instance = instance.map(|(kind, id)| (kind.to_owned(), id));
                    let id = state.add_job(command.name, call.caller.user, instance, work);
                    let makes = makes.map(|made| made.to_string());
                    Ok((job::submitted(&id.to_string(), makes.as_deref()), Some(id)))
                }
            }
        })?;
        if let Some(id) = started {
            self.spawn_job(id);
        }
        Ok(body)
    }
}

fn answer(format: Format, root: &str, done: Result<Value, Fault>) -> Response {
    let (status, root, body) = match done {
        Ok(body) => (StatusCode::OK, root, body),
        Err(fault) => {
            let code = StatusCode::from_u16(fault.code().number()).unwrap_or(StatusCode::BAD_REQUEST);
            let root = if fault.code() == Code::Unsupported {
                "errorresponse"
            } else {
                root
            };
            (code, root, fault.body())
        }
    };
    let mut response = (status, envelope::render(format, root, &body)).into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    response
}
