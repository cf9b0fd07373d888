//! From stored rows to the objects of replies, one file per object, each with its declaration for listApis.
//!
//! What this must not know: requests, and how rows are found.

pub mod cluster;
pub mod event;
pub mod job;
pub mod machine;
pub mod result;
pub mod setting;
pub mod version;

use serde_json::{Map, Value};

/// An object under construction: members in order, absent ones left out.
#[derive(Debug, Default)]
pub(super) struct Members(Map<String, Value>);

impl Members {
    pub(super) fn put(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub(super) fn maybe(&mut self, name: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }

    /// Id and name of another object.
    pub(super) fn named(&mut self, id: &str, name: &str, object: Option<&(uuid::Uuid, String)>) -> &mut Self {
        if let Some((object_id, object_name)) = object {
            self.put(id, object_id.to_string())
                .put(name, object_name.as_str());
        }
        self
    }

    pub(super) fn object(self) -> Value {
        Value::Object(self.0)
    }
}
