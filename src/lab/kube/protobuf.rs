//! The one protobuf body that is read: `DeleteOptions`, as typed clients send it with a deletion.
//!
//! Kubernetes wraps protobuf: the bytes `k8s\0`, then a message with the type (field 1) and the object's own bytes
//! (field 2).

use serde_json::{Value, json};

use super::json as js;

/// A field: its number and what it holds.
enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}

fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Held<'_>)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes)?;
        let (number, wire) = (tag >> 3, tag & 7);
        match wire {
            0 => {
                let (value, rest) = varint(rest)?;
                all.push((number, Held::Number(value)));
                bytes = rest;
            }
            2 => {
                let (length, rest) = varint(rest)?;
                let length = usize::try_from(length).ok()?;
                all.push((number, Held::Bytes(rest.get(..length)?)));
                bytes = rest.get(length..)?;
            }
            _ => return None,
        }
    }
    Some(all)
}

fn bytes_of<'a>(all: &[(u64, Held<'a>)], wanted: u64) -> Option<&'a [u8]> {
    all.iter().find_map(|(number, held)| match held {
        Held::Bytes(bytes) if *number == wanted => Some(*bytes),
        _ => None,
    })
}

fn text_of(all: &[(u64, Held<'_>)], wanted: u64) -> Option<String> {
    bytes_of(all, wanted).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Reads `DeleteOptions`, or `None` if it is something else.
pub(crate) fn delete_options(body: &[u8]) -> Option<Value> {
    let outer = fields(body.strip_prefix(b"k8s\0")?)?;
    let kind = fields(bytes_of(&outer, 1)?)?;
    if text_of(&kind, 2)? != "DeleteOptions" {
        return None;
    }
    let inner = fields(bytes_of(&outer, 2).unwrap_or_default())?;
    let mut options = json!({"kind": "DeleteOptions"});
    for (number, held) in &inner {
        match (number, held) {
            (1, Held::Number(grace)) => {
                js::put(
                    &mut options,
                    "/gracePeriodSeconds",
                    json!(i64::from_le_bytes(grace.to_le_bytes())),
                );
            }
            (2, Held::Bytes(bytes)) => {
                let preconditions = fields(bytes)?;
                for (number, field) in [(1, "uid"), (2, "resourceVersion")] {
                    if let Some(text) = text_of(&preconditions, number) {
                        js::put(&mut options, &format!("/preconditions/{field}"), json!(text));
                    }
                }
            }
            (4, Held::Bytes(policy)) => {
                js::put(
                    &mut options,
                    "/propagationPolicy",
                    json!(String::from_utf8_lossy(policy)),
                );
            }
            (5, Held::Bytes(dry_run)) => {
                js::put(&mut options, "/dryRun", json!([String::from_utf8_lossy(dry_run)]));
            }
            _ => {}
        }
    }
    Some(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(kind: &str, inner: &[u8]) -> Vec<u8> {
        let mut type_meta = vec![0x0a, 2, b'v', b'1', 0x12, u8::try_from(kind.len()).unwrap()];
        type_meta.extend(kind.as_bytes());
        let mut body = b"k8s\0\x0a".to_vec();
        body.push(u8::try_from(type_meta.len()).unwrap());
        body.extend(type_meta);
        body.extend([0x12, u8::try_from(inner.len()).unwrap()]);
        body.extend(inner);
        body
    }

    #[test]
    fn delete_options_are_read() {
        let inner = b"\x08\x1e\x12\x03\x0a\x01u\x22\x06Orphan\x2a\x03All";
        assert_eq!(
            delete_options(&wrapped("DeleteOptions", inner)).unwrap(),
            json!({"kind": "DeleteOptions", "gracePeriodSeconds": 30, "preconditions": {"uid": "u"},
                "propagationPolicy": "Orphan", "dryRun": ["All"]})
        );
        assert_eq!(
            delete_options(&wrapped("DeleteOptions", b"")).unwrap(),
            json!({"kind": "DeleteOptions"})
        );
    }

    #[test]
    fn anything_else_is_not_read() {
        assert_eq!(delete_options(&wrapped("Namespace", b"")), None);
        assert_eq!(delete_options(b"k8s\0\x0a\xff"), None);
        assert_eq!(delete_options(b"{}"), None);
    }
}
