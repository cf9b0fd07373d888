//! queryAsyncJobResult: how far a job is.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::views::job;
use super::{Entry, Part};
use crate::db::lists::Window;
use crate::db::lists::jobs::{self, Filter};
use crate::domain::id::JobId;
use crate::protocol::command::{Command, Param, ParamType, Reply, Role};

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "queryAsyncJobResult",
        description: "Shows how far a job is, and its result when it has ended",
        since: None,
        roles: Role::ALL,
        reply: Reply::Fields,
        params: &[Param::required("jobid", ParamType::Uuid, "the job")],
        response: job::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let id = cx.required_id("jobid")?;
    let mut conn = cx.connection().await?;
    let sight = cx.sight(&mut conn).await?;
    let filter = Filter {
        id: Some(JobId(id)),
        ..Filter::default()
    };
    let one = Window { limit: 1, offset: 0 };
    let found = jobs::list(&mut conn, &sight, &filter, one).await?;
    let row = found
        .rows
        .first()
        .ok_or_else(|| cx.unknown_id("jobid", &id.to_string()))?;
    Ok(job::job(row))
}
