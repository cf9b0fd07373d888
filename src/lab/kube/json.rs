//! Reading and writing JSON objects by pointer, so that the rest can say which field it means.

use serde_json::{Map, Value};

const NULL: Value = Value::Null;
static ABSENT: Value = NULL;

/// The value at a pointer, or null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&ABSENT)
}

/// The string at a pointer, or nothing at all ("").
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).as_str().unwrap_or("")
}

/// The number at a pointer.
pub(crate) fn int(value: &Value, pointer: &str) -> Option<i64> {
    at(value, pointer).as_i64()
}

/// The number at a pointer, or zero.
pub(crate) fn count(value: &Value, pointer: &str) -> i64 {
    int(value, pointer).unwrap_or(0)
}

/// True if there is a `true` at a pointer.
pub(crate) fn flag(value: &Value, pointer: &str) -> bool {
    at(value, pointer).as_bool().unwrap_or(false)
}

/// The elements of the array at a pointer, or none.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// The object at a pointer.
pub(crate) fn object<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    at(value, pointer).as_object()
}

/// True if something other than null stands at the pointer.
pub(crate) fn has(value: &Value, pointer: &str) -> bool {
    !at(value, pointer).is_null()
}

/// `metadata.name`.
pub(crate) fn name(value: &Value) -> &str {
    text(value, "/metadata/name")
}

/// `metadata.namespace`.
pub(crate) fn namespace(value: &Value) -> &str {
    text(value, "/metadata/namespace")
}

/// `metadata.uid`.
pub(crate) fn uid(value: &Value) -> &str {
    text(value, "/metadata/uid")
}

/// True once a deletion was asked for.
pub(crate) fn deleting(value: &Value) -> bool {
    has(value, "/metadata/deletionTimestamp")
}

/// An annotation or "".
pub(crate) fn annotation<'a>(value: &'a Value, key: &str) -> &'a str {
    object(value, "/metadata/annotations")
        .and_then(|map| map.get(key))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// Puts a value at a pointer, making the objects on the way.
pub(crate) fn put(value: &mut Value, pointer: &str, new: Value) {
    let mut here = value;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        if !here.is_object() {
            *here = Value::Object(Map::new());
        }
        let Value::Object(map) = here else { return };
        here = map.entry(part).or_insert(Value::Null);
    }
    *here = new;
}

/// Puts a value at a pointer where nothing (or null) stands.
pub(crate) fn put_default(value: &mut Value, pointer: &str, new: Value) {
    if !has(value, pointer) {
        put(value, pointer, new);
    }
}

/// Takes away what stands at a pointer.
pub(crate) fn take(value: &mut Value, pointer: &str) -> Option<Value> {
    let (parent, last) = pointer.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = if parent.is_empty() {
        Some(value)
    } else {
        value.pointer_mut(parent)
    };
    parent?.as_object_mut()?.shift_remove(&last)
}

/// The condition of a type in `status.conditions`.
pub(crate) fn condition<'a>(value: &'a Value, kind: &str) -> Option<&'a Value> {
    items(value, "/status/conditions")
        .iter()
        .find(|item| text(item, "/type") == kind)
}

/// True if the condition of that type is "True".
pub(crate) fn condition_true(value: &Value, kind: &str) -> bool {
    condition(value, kind).is_some_and(|item| text(item, "/status") == "True")
}

/// Sets or adds a condition, by its type.
pub(crate) fn set_condition(value: &mut Value, new: Value) {
    let kind = text(&new, "/type").to_owned();
    let mut all = items(value, "/status/conditions").to_vec();
    match all.iter_mut().find(|item| text(item, "/type") == kind) {
        Some(old) => *old = new,
        None => all.push(new),
    }
    put(value, "/status/conditions", Value::Array(all));
}

/// The controlling owner of an object, if it has one.
pub(crate) fn controller(value: &Value) -> Option<&Value> {
    items(value, "/metadata/ownerReferences")
        .iter()
        .find(|owner| flag(owner, "/controller"))
}

/// True if the object is controlled by the one with that uid.
pub(crate) fn controlled_by(value: &Value, owner_uid: &str) -> bool {
    controller(value).is_some_and(|owner| text(owner, "/uid") == owner_uid)
}
