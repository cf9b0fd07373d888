//! Replies in JSON and XML from one value, dates, and the forms of a list (`api-protocol.md` 2.1 to 2.3).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quick_xml::escape::escape;
use serde_json::{Map, Value, json};

/// The CloudStack release whose wire we speak.
pub const CLOUDSTACK_VERSION: &str = "4.22.1.0";

/// Members that are maps of free keys, which XML prints in one piece.
const MAP_MEMBERS: &[&str] = &["etcdips", "details"];

/// How a reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `response=json`.
    Json,
    /// Anything else.
    Xml,
}

impl Format {
    /// The format that the parameter `response` asks for.
    #[must_use]
    pub fn of(response: Option<&str>) -> Format {
        match response {
            Some(word) if word.eq_ignore_ascii_case("json") => Format::Json,
            _ => Format::Xml,
        }
    }

    /// The header `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Json => "application/json; charset=UTF-8",
            Format::Xml => "text/xml; charset=UTF-8",
        }
    }
}

/// The envelope key of a command: its name in lower case and `response`.
#[must_use]
pub fn root_of(command: &str) -> String {
    match command {
        "restoreVirtualMachine" => "restorevmresponse".to_owned(),
        _ => format!("{}response", command.to_lowercase()),
    }
}

/// The whole reply: `body` under the one key `root`. Members that are null are left out.
#[must_use]
pub fn render(format: Format, root: &str, body: &Value) -> String {
    match format {
        Format::Json => {
            let mut top = Map::new();
            top.insert(root.to_owned(), without_nulls(body));
            Value::Object(top).to_string()
        }
        Format::Xml => {
            let mut out = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?><{root} cloud-stack-version=\"{CLOUDSTACK_VERSION}\">"
            );
            if let Value::Object(members) = body {
                write_members(&mut out, members);
            }
            out.push_str("</");
            out.push_str(root);
            out.push('>');
            out
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

fn write_members(out: &mut String, members: &Map<String, Value>) {
    for (name, value) in members {
        match value {
            Value::Array(items) => {
                for item in items {
                    write_element(out, name, item);
                }
            }
            other => write_element(out, name, other),
        }
    }
}

fn write_element(out: &mut String, name: &str, value: &Value) {
    if value.is_null() {
        return;
    }
    out.push('<');
    out.push_str(name);
    out.push('>');
    match value {
        Value::Object(members) if MAP_MEMBERS.contains(&name) || !members.keys().all(|key| is_name(key)) => {
            let pairs: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{key}={}", scalar(value)))
                .collect();
            out.push_str(&xml_text(&format!("{{{}}}", pairs.join(", "))));
        }
        Value::Object(members) => write_members(out, members),
        Value::Array(items) => {
            for item in items {
                write_element(out, name, item);
            }
        }
        other => out.push_str(&xml_text(&scalar(other))),
    }
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

fn is_name(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn xml_text(text: &str) -> String {
    // XML 1.0 has no way to write other control characters.
    let clean: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
        .collect();
    escape(clean.as_str()).into_owned()
}

/// A date as replies have it: `2026-01-02T03:04:05+0000`.
#[must_use]
pub fn date(t: Timestamp) -> String {
    t.to_zoned(TimeZone::UTC)
        .strftime("%Y-%m-%dT%H:%M:%S%z")
        .to_string()
}

/// The body of a list: nothing at all without a match, only the count past the last page.
#[must_use]
pub fn list_body(object: &str, total: usize, page_items: Vec<Value>) -> Value {
    if total == 0 {
        return json!({});
    }
    let mut body = Map::new();
    body.insert("count".to_owned(), json!(total));
    if !page_items.is_empty() {
        body.insert(object.to_owned(), Value::Array(page_items));
    }
    Value::Object(body)
}

/// The body of one object.
#[must_use]
pub fn object_body(object: &str, value: Value) -> Value {
    let mut body = Map::new();
    body.insert(object.to_owned(), value);
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_one_key_and_no_nulls() {
        let body = json!({"count": 1, "zone": [{"id": "z", "gone": null, "tags": []}]});
        assert_eq!(
            render(Format::Json, "listzonesresponse", &body),
            r#"{"listzonesresponse":{"count":1,"zone":[{"id":"z","tags":[]}]}}"#
        );
    }

    #[test]
    fn json_escapes_no_html() {
        assert_eq!(
            render(Format::Json, "r", &json!({"t": "<a&b='\u{e9}'>"})),
            "{\"r\":{\"t\":\"<a&b='\u{e9}'>\"}}"
        );
    }

    #[test]
    fn xml_repeats_list_items_and_escapes() {
        let body = json!({
            "count": 2,
            "zone": [
                {"name": "a<&>\"'b", "tags": ["x", "y"], "none": null},
                {"name": "c", "etcdips": {"1f": "10.0.0.1", "2f": "10.0.0.2"}},
            ],
        });
        assert_eq!(
            render(Format::Xml, "listzonesresponse", &body),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><listzonesresponse cloud-stack-version=\"4.22.1.0\"><count>2</count><zone><name>a&lt;&amp;&gt;&quot;&apos;b</name><tags>x</tags><tags>y</tags></zone><zone><name>c</name><etcdips>{1f=10.0.0.1, 2f=10.0.0.2}</etcdips></zone></listzonesresponse>"
        );
    }

    #[test]
    fn xml_nests_a_job_result() {
        let body = json!({"jobstatus": 1, "jobresult": {"kubernetescluster": {"id": "c"}}});
        assert_eq!(
            render(Format::Xml, "queryasyncjobresultresponse", &body),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><queryasyncjobresultresponse cloud-stack-version=\"4.22.1.0\"><jobstatus>1</jobstatus><jobresult><kubernetescluster><id>c</id></kubernetescluster></jobresult></queryasyncjobresultresponse>"
        );
    }

    #[test]
    fn an_empty_list_has_no_members_and_a_page_past_the_end_only_the_count() {
        assert_eq!(list_body("zone", 0, vec![]).to_string(), "{}");
        assert_eq!(list_body("zone", 3, vec![]).to_string(), r#"{"count":3}"#);
        assert_eq!(
            list_body("zone", 3, vec![json!({"id": "z"})]).to_string(),
            r#"{"count":3,"zone":[{"id":"z"}]}"#
        );
    }

    #[test]
    fn dates_have_an_offset_without_colon_and_no_fractions() {
        let instant: Timestamp = "2026-01-02T03:04:05.987Z".parse().unwrap();
        assert_eq!(date(instant), "2026-01-02T03:04:05+0000");
    }

    #[test]
    fn formats_and_roots() {
        assert_eq!(Format::of(Some("JSON")), Format::Json);
        assert_eq!(Format::of(Some("xml")), Format::Xml);
        assert_eq!(Format::of(None), Format::Xml);
        assert_eq!(
            root_of("listKubernetesClusters"),
            "listkubernetesclustersresponse"
        );
        assert_eq!(root_of("restoreVirtualMachine"), "restorevmresponse");
    }
}
