//! updateConfiguration: changes a setting.

use serde_json::Value;
use sqlx::Connection as _;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::views::setting;
use super::{Entry, Part};
use crate::db::events::{self, NewEvent};
use crate::db::settings;
use crate::domain::event::{Level, Stage};
use crate::domain::id::EventId;
use crate::domain::settings::find;
use crate::protocol::Fault;
use crate::protocol::command::{Command, Param, ParamType, Reply, Role};
use crate::protocol::envelope::object_body;

/// The type of the event.
const EVENT_TYPE: &str = "CONFIGURATION.VALUE.EDIT";

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "updateConfiguration",
        description: "Changes a setting",
        since: None,
        roles: &[Role::Admin],
        reply: Reply::Object("configuration"),
        params: &[
            Param::required("name", ParamType::String, "the setting"),
            Param::optional("value", ParamType::String, "its new value").length(4095),
        ],
        response: setting::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let name = cx.text("name").unwrap_or_default().trim();
    let known = find(name).ok_or_else(|| Fault::invalid(format!("there is no setting {name}")))?;
    let given = cx
        .params
        .get("value")
        .ok_or_else(|| Fault::missing(cx.command.name, "value"))?;
    let value = known.check(given)?;
    let mut conn = cx.connection().await?;
    let mut tx = conn.begin().await?;
    let before = settings::load(&mut tx).await?.text(known);
    if before != value {
        settings::set(&mut tx, known, &value).await?;
        let event = NewEvent {
            id: EventId(cx.api.state.ids.ordered()),
            kind: EVENT_TYPE,
            level: Level::Info,
            stage: Stage::Completed,
            text: &format!("changed setting {name} from {before} to {value}"),
            account_key: cx.caller.account.key,
            user_key: Some(cx.caller.user_key),
            resource_type: None,
            resource_id: None,
            resource_name: Some(name),
            parent: None,
            job: None,
        };
        events::insert(&mut tx, &event).await?;
    }
    let values = settings::load(&mut tx).await?;
    tx.commit().await?;
    cx.api.settings.forget();
    Ok(object_body("configuration", setting::setting(known, &values)))
}
