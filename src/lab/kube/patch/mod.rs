//! The patches that clients send: strategic merge, merge, JSON patch, and apply (taken as a strategic merge).
//!
//! What this must not know: what is stored, and what a field means beyond how lists of it are merged.

mod operations;
mod strategic;

use serde_json::Value;

use super::error::Status;

/// A patch with its kind.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    /// `application/merge-patch+json`
    Merge(Value),
    /// `application/strategic-merge-patch+json`
    Strategic(Value),
    /// `application/json-patch+json`
    Operations(Value),
    /// `application/apply-patch+yaml`
    Apply(Value),
}

impl Patch {
    /// Reads the body of a PATCH request.
    pub(crate) fn parse(content_type: &str, body: &[u8]) -> Result<Self, Status> {
        let wrong =
            |error: &dyn std::fmt::Display| Status::bad_request(format!("error decoding patch: {error}"));
        let read = || serde_json::from_slice::<Value>(body).map_err(|error| wrong(&error));
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/merge-patch+json" => Ok(Self::Merge(read()?)),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic(read()?)),
            "application/json-patch+json" => Ok(Self::Operations(read()?)),
            "application/apply-patch+yaml" => Ok(Self::Apply(
                serde_yaml_ng::from_slice(body).map_err(|error| wrong(&error))?,
            )),
            other => Err(Status::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format ({other}) - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json, \
                     application/strategic-merge-patch+json, application/apply-patch+yaml"
                ),
            )),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, object: &Value) -> Result<Value, Status> {
        let mut new = object.clone();
        match self {
            Self::Merge(patch) => merge(&mut new, patch),
            Self::Strategic(patch) | Self::Apply(patch) => strategic::merge(&mut new, patch),
            Self::Operations(patch) => operations::apply(&mut new, patch)?,
        }
        Ok(new)
    }
}

/// JSON merge patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.shift_remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests;
