//! The object `configuration` (`api-protocol.md` 2.7).

use serde_json::{Value, json};

use crate::domain::settings::{Setting, Settings, Takes};
use crate::protocol::command::{Field, FieldType};

/// The group that every setting stands in.
pub const GROUP: &str = "Miscellaneous";
/// The category that every setting stands in.
pub const CATEGORY: &str = "Advanced";

/// The setting as clients see it.
#[must_use]
pub fn setting(setting: &Setting, values: &Settings) -> Value {
    json!({
        "category": CATEGORY,
        "group": GROUP,
        "subgroup": "Others",
        "name": setting.name,
        "value": values.text(setting),
        "defaultvalue": setting.default,
        "description": setting.description,
        "scope": "global",
        "isdynamic": setting.takes == Takes::AtOnce,
        "component": "cksd",
        "displaytext": setting.name,
        "type": setting.type_word(),
    })
}

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("category", FieldType::String, "the category"),
    Field::new("group", FieldType::String, "the group"),
    Field::new("subgroup", FieldType::String, "the group within the group"),
    Field::new("name", FieldType::String, "the name"),
    Field::new("value", FieldType::String, "the value"),
    Field::new("defaultvalue", FieldType::String, "the value without a change"),
    Field::new("description", FieldType::String, "what it means"),
    Field::new("scope", FieldType::String, "global"),
    Field::new(
        "isdynamic",
        FieldType::Boolean,
        "whether a change works without a restart",
    ),
    Field::new("component", FieldType::String, "what reads it"),
    Field::new("displaytext", FieldType::String, "its name for people"),
    Field::new("type", FieldType::String, "Boolean, Number or String"),
];
