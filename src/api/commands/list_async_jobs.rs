//! listAsyncJobs: pending and finished jobs.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::scope::{
    ACCOUNT, ById, DOMAIN_ID, IS_RECURSIVE, KEYWORD, LIST_ALL, PAGE, PAGE_SIZE, PROJECT_ID,
};
use super::super::views::job;
use super::{Entry, Part};
use crate::db::lists::jobs::{self, Filter};
use crate::protocol::command::{Command, DayEnd, Param, ParamType, Reply, Role, read_date};
use crate::protocol::envelope::list_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listAsyncJobs",
        description: "Lists jobs, oldest first",
        since: None,
        roles: Role::ALL,
        reply: Reply::List("asyncjobs"),
        params: &[
            Param::optional(
                "startdate",
                ParamType::Date,
                "only jobs that were admitted from then on",
            ),
            Param::optional("resourceid", ParamType::Uuid, "only jobs of this object").since("4.22.0"),
            Param::optional(
                "resourcetype",
                ParamType::String,
                "only jobs of objects of this type",
            )
            .since("4.22.0"),
            KEYWORD,
            ACCOUNT,
            DOMAIN_ID,
            PROJECT_ID,
            IS_RECURSIVE,
            LIST_ALL,
            PAGE,
            PAGE_SIZE,
        ],
        response: job::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let window = cx.window()?;
    let filter = Filter {
        id: None,
        since: cx
            .text("startdate")
            .and_then(|text| read_date(text, DayEnd::Start)),
        keyword: cx.text("keyword").map(str::to_owned),
        instance: cx.id("resourceid")?,
        instance_type: cx.text("resourcetype").map(str::to_owned),
    };
    let mut conn = cx.connection().await?;
    let scope = cx.list_scope(&mut conn, ById::No).await?;
    let found = jobs::list(&mut conn, &scope, &filter, window).await?;
    let items = found.rows.iter().map(job::job).collect();
    Ok(list_body("asyncjobs", found.total, items))
}
