//! A job as queryAsyncJobResult and listAsyncJobs show it, with `operation` (`behaviour.md` 2).

use serde_json::{Map, Value};

use crate::db::lists::jobs::JobRow;
use crate::domain::account::shown_path;
use crate::domain::job::{Progress, Waiting, operation_object};
use crate::protocol::command::{Field, FieldType};
use crate::protocol::job::{JobReply, JobStatus, class_of};

/// The job as clients see it.
#[must_use]
pub fn job(row: &JobRow) -> Value {
    let status = JobStatus::from_number(i64::from(row.status));
    let finished = status != JobStatus::Pending;
    let mut more = Map::new();
    let operation = operation(row);
    if operation.as_object().is_some_and(|members| !members.is_empty()) {
        more.insert("operation".to_owned(), operation);
    }
    JobReply {
        account_id: row.account.0.to_string(),
        account: row.account.1.clone(),
        domain_id: row.domain.0.to_string(),
        domain_path: shown_path(&row.domain.1),
        user_id: row.user_id.to_string(),
        cmd: class_of(&row.command),
        job_id: row.id.to_string(),
        status,
        result_code: i64::from(row.result_code),
        // A finished job always has a result: clients wait for ever without one.
        result: finished.then(|| {
            row.result
                .clone()
                .unwrap_or_else(|| serde_json::json!({"success": true}))
        }),
        instance: row
            .instance
            .as_ref()
            .map(|(kind, id)| (kind.clone(), id.to_string())),
        created: row.created,
        completed: row.completed,
        more,
    }
    .body()
}

/// Step, node, attempt, what it waits for, deadline, nodes done and skipped.
fn operation(row: &JobRow) -> Value {
    let progress: Option<Progress> = row
        .progress
        .clone()
        .and_then(|value| serde_json::from_value(value).ok());
    let waiting: Option<Waiting> = row
        .waiting_for
        .clone()
        .and_then(|value| serde_json::from_value(value).ok());
    operation_object(progress.as_ref(), waiting.as_ref(), row.deadline)
}

const SKIPPED: &[Field] = &[
    Field::new("node", FieldType::String, "the node"),
    Field::new("proof", FieldType::String, "why it needed nothing"),
];

/// The declaration of `operation`.
const OPERATION: &[Field] = &[
    Field::new("step", FieldType::String, "the step"),
    Field::new("node", FieldType::String, "the node that it works on"),
    Field::new("since", FieldType::Date, "since when"),
    Field::new("attempt", FieldType::Integer, "which attempt it is"),
    Field::new("waitingfor", FieldType::String, "what it waits for"),
    Field::new("waitingsince", FieldType::Date, "since when it waits"),
    Field::new("deadline", FieldType::Date, "when it must have ended"),
    Field::new("nodesdone", FieldType::List, "the nodes that are done"),
    Field::nested(
        "nodesskipped",
        FieldType::List,
        "the nodes that needed nothing",
        SKIPPED,
    ),
];

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("accountid", FieldType::String, "the id of the account"),
    Field::new("account", FieldType::String, "the account"),
    Field::new("domainid", FieldType::String, "the id of the domain"),
    Field::new("domainpath", FieldType::String, "the path of the domain"),
    Field::new("userid", FieldType::String, "the id of the user"),
    Field::new("cmd", FieldType::String, "the class of the command"),
    Field::new(
        "jobstatus",
        FieldType::Integer,
        "0 in progress, 1 succeeded, 2 failed",
    ),
    Field::new("jobprocstatus", FieldType::Integer, "always 0"),
    Field::new("jobresultcode", FieldType::Integer, "0, or the code of the error"),
    Field::new(
        "jobresulttype",
        FieldType::String,
        "object, when there is a result",
    ),
    Field::new("jobresult", FieldType::Object, "the result of a finished job"),
    Field::new("jobinstancetype", FieldType::String, "the type of the object"),
    Field::new("jobinstanceid", FieldType::String, "the id of the object"),
    Field::new("created", FieldType::Date, "when it was admitted"),
    Field::new("completed", FieldType::Date, "when it ended"),
    Field::new("jobid", FieldType::String, "the id of the job"),
    Field::nested(
        "operation",
        FieldType::Object,
        "where the operation is (an extension)",
        OPERATION,
    ),
];
