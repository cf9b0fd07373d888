//! listApis: what the caller may call.

use serde_json::Value;

use super::super::context::Cx;
use super::super::dispatch::wire_role;
use super::super::error::ApiError;
use super::{ALL, Entry, Part};
use crate::protocol::command::{Command, Field, FieldType, Param, ParamType, Reply, Role};
use crate::protocol::envelope::list_body;
use crate::protocol::{Code, CsCode, Fault};

const PARAMS: &[Field] = &[
    Field::new("name", FieldType::String, "the name of the parameter"),
    Field::new("description", FieldType::String, "what it means"),
    Field::new("type", FieldType::String, "its type"),
    Field::new("length", FieldType::Integer, "its greatest length"),
    Field::new("required", FieldType::Boolean, "whether it must be given"),
    Field::new("since", FieldType::String, "the release that brought it"),
];

const RESPONSE: &[Field] = &[
    Field::new("name", FieldType::String, "the name of the member"),
    Field::new("description", FieldType::String, "what it means"),
    Field::new("type", FieldType::String, "its type"),
    Field::new("response", FieldType::List, "members of the nested objects"),
];

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listApis",
        description: "Lists the commands that the caller may use",
        since: Some("4.1.0"),
        roles: Role::ALL,
        reply: Reply::List("api"),
        params: &[Param::optional("name", ParamType::String, "only this command")],
        response: &[
            Field::new("name", FieldType::String, "the name of the command"),
            Field::new("description", FieldType::String, "what it does"),
            Field::new("since", FieldType::String, "the release that brought it"),
            Field::new("isasync", FieldType::Boolean, "whether it answers with a job"),
            Field::nested("params", FieldType::List, "its parameters", PARAMS),
            Field::nested("response", FieldType::List, "the members of its object", RESPONSE),
        ],
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

#[expect(clippy::unused_async, reason = "every command is called the same way")]
async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let role = wire_role(cx.caller.account.role);
    let wanted = cx.text("name");
    let items: Vec<Value> = ALL
        .iter()
        .filter(|entry| entry.is_offered(&cx.api.state.options) && entry.command.allows(role))
        .filter(|entry| wanted.is_none_or(|name| name == entry.command.name))
        .map(|entry| entry.command.describe())
        .collect();
    match wanted {
        Some(name) if items.is_empty() => Err(Fault::new(
            Code::Internal,
            CsCode::CloudRuntime,
            format!(
                "there is no command {name}, or not for account {}",
                cx.caller.account.name
            ),
        )
        .into()),
        _ => Ok(list_body("api", items.len(), items)),
    }
}
