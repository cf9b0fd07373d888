//! The object `event` (`api-protocol.md` 2.7).

use serde_json::Value;

use super::Members;
use crate::db::lists::events::EventRow;
use crate::domain::account::shown_path;
use crate::protocol::command::{Field, FieldType};
use crate::protocol::envelope::date;

/// The event as clients see it.
#[must_use]
pub fn event(row: &EventRow) -> Value {
    let mut it = Members::default();
    it.put("id", row.id.to_string())
        .maybe("username", row.user_name.as_deref())
        .put("type", row.kind.as_str())
        .put("level", row.level.as_str())
        .put("description", row.description.as_str())
        .maybe("account", row.account.as_deref())
        .named("projectid", "project", row.project.as_ref())
        .put("domainid", row.domain.0.to_string())
        .put("domain", row.domain.1.as_str())
        .put("domainpath", shown_path(&row.domain.2))
        .maybe("resourceid", row.resource_id.map(|id| id.to_string()))
        .maybe("resourcetype", row.resource_type.as_deref())
        .maybe("resourcename", row.resource_name.as_deref())
        .put("created", date(row.created))
        .put("state", row.stage.as_str())
        .maybe("parentid", row.parent.map(|id| id.to_string()))
        .put("archived", row.archived);
    it.object()
}

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("id", FieldType::String, "the id of the event"),
    Field::new("username", FieldType::String, "the user who caused it"),
    Field::new("type", FieldType::String, "its type"),
    Field::new("level", FieldType::String, "INFO, WARN or ERROR"),
    Field::new("description", FieldType::String, "what happened"),
    Field::new("account", FieldType::String, "the account"),
    Field::new("projectid", FieldType::String, "the id of the project"),
    Field::new("project", FieldType::String, "the name of the project"),
    Field::new("domainid", FieldType::String, "the id of the domain"),
    Field::new("domain", FieldType::String, "the name of the domain"),
    Field::new("domainpath", FieldType::String, "the path of the domain"),
    Field::new("resourceid", FieldType::String, "the id of the object"),
    Field::new("resourcetype", FieldType::String, "the type of the object"),
    Field::new("resourcename", FieldType::String, "the name of the object"),
    Field::new("created", FieldType::Date, "when it happened"),
    Field::new(
        "state",
        FieldType::String,
        "Created, Scheduled, Started or Completed",
    ),
    Field::new(
        "parentid",
        FieldType::String,
        "the id of the Scheduled event that it belongs to",
    ),
    Field::new("archived", FieldType::Boolean, "whether it was archived"),
];
