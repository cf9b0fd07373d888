//! JSON patch (RFC 6902).

use serde_json::Value;

use super::super::error::Status;
use super::super::json;

/// Applies the operations in order; the first that cannot be done refuses all.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let Some(operations) = patch.as_array() else {
        return Err(Status::bad_request(
            "error decoding patch: a JSON patch is a list of operations",
        ));
    };
    for operation in operations {
        let path = json::text(operation, "/path");
        let value = operation.get("value").cloned();
        let done = match json::text(operation, "/op") {
            "add" => value.and_then(|value| add(target, path, value)),
            "remove" => remove(target, path).map(|_| ()),
            "replace" => value.and_then(|value| {
                *target.pointer_mut(path)? = value;
                Some(())
            }),
            "move" => {
                remove(target, json::text(operation, "/from")).and_then(|value| add(target, path, value))
            }
            "copy" => {
                let from = target.pointer(json::text(operation, "/from")).cloned();
                from.and_then(|value| add(target, path, value))
            }
            "test" => (target.pointer(path) == value.as_ref()).then_some(()),
            _ => None,
        };
        if done.is_none() {
            return Err(Status::new(
                422,
                "Invalid",
                format!(
                    "the server rejected our request due to an error in our request: the operation {operation} cannot be applied"
                ),
            ));
        }
    }
    Ok(())
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(map) => {
            map.insert(last, value);
        }
        Value::Array(list) => {
            let index = if last == "-" {
                list.len()
            } else {
                last.parse().ok()?
            };
            if index > list.len() {
                return None;
            }
            list.insert(index, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(map) => map.shift_remove(&last),
        Value::Array(list) => {
            let index: usize = last.parse().ok()?;
            (index < list.len()).then(|| list.remove(index))
        }
        _ => None,
    }
}
