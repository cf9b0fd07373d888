//! listEvents: what happened, newest first.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::scope::{
    ACCOUNT, ById, DOMAIN_ID, IS_RECURSIVE, KEYWORD, LIST_ALL, PAGE, PAGE_SIZE, PROJECT_ID,
};
use super::super::views::event;
use super::{Entry, Part};
use crate::db::lists::events::{self, Filter};
use crate::domain::id::EventId;
use crate::protocol::command::{Command, DayEnd, Param, ParamType, Reply, Role, read_date};
use crate::protocol::envelope::list_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listEvents",
        description: "Lists events, newest first",
        since: None,
        roles: Role::ALL,
        reply: Reply::List("event"),
        params: &[
            Param::optional("id", ParamType::Uuid, "only the event of this id"),
            Param::optional("type", ParamType::String, "only events of this type"),
            Param::optional(
                "level",
                ParamType::String,
                "only events of this level: INFO, WARN, ERROR",
            ),
            Param::optional("startdate", ParamType::Date, "only events from then on"),
            Param::optional("enddate", ParamType::Date, "only events until then"),
            Param::optional(
                "startid",
                ParamType::Uuid,
                "only this event and those that belong to it",
            ),
            Param::optional("resourceid", ParamType::Uuid, "only events about this object"),
            Param::optional(
                "resourcetype",
                ParamType::String,
                "only events about objects of this type",
            ),
            Param::optional(
                "archived",
                ParamType::Boolean,
                "archived events instead of the others",
            ),
            KEYWORD,
            ACCOUNT,
            DOMAIN_ID,
            PROJECT_ID,
            IS_RECURSIVE,
            LIST_ALL,
            PAGE,
            PAGE_SIZE,
        ],
        response: event::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let window = cx.window()?;
    let date = |name: &str, day| cx.text(name).and_then(|text| read_date(text, day));
    let id = cx.id("id")?.map(EventId);
    let filter = Filter {
        id,
        kind: cx.text("type").map(str::to_owned),
        level: cx.text("level").map(str::to_uppercase),
        from: date("startdate", DayEnd::Start),
        until: date("enddate", DayEnd::End),
        start: cx.id("startid")?.map(EventId),
        resource: cx.id("resourceid")?,
        resource_type: cx.text("resourcetype").map(str::to_owned),
        keyword: cx.text("keyword").map(str::to_owned),
        archived: Some(cx.is_true("archived")),
    };
    let mut conn = cx.connection().await?;
    let by_id = if id.is_some() { ById::Yes } else { ById::No };
    let scope = cx.list_scope(&mut conn, by_id).await?;
    let found = events::list(&mut conn, &scope, &filter, window).await?;
    if let (Some(id), 0) = (id, found.total) {
        return Err(cx.unknown_id("id", &id.to_string()).into());
    }
    let items = found.rows.iter().map(event::event).collect();
    Ok(list_body("event", found.total, items))
}
