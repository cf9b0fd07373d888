//! The object `kubernetessupportedversion` (`cks-facts.md` 1.15).

use serde_json::Value;

use super::Members;
use super::machine::View;
use crate::db::lists::versions::VersionRow;
use crate::domain::version::KubeVersion;
use crate::protocol::command::{Field, FieldType};
use crate::protocol::envelope::date;

/// The version as clients see it.
#[must_use]
pub fn version(row: &VersionRow, view: View) -> Value {
    let at_least = |text: &str| {
        let (here, least) = (
            row.semantic_version.parse::<KubeVersion>(),
            text.parse::<KubeVersion>(),
        );
        matches!((here, least), (Ok(here), Ok(least)) if here >= least)
    };
    let iso = row.iso.1.as_ref();
    let mut it = Members::default();
    it.put("id", row.id.to_string())
        .put("name", row.name.as_str())
        .put("semanticversion", row.semantic_version.as_str())
        .put("isoid", row.iso.0.to_string());
    if let Some((name, data)) = iso {
        it.put("isoname", name.as_str());
        let ready = data.get("ready").and_then(Value::as_bool);
        it.maybe(
            "isostate",
            ready.map(|ready| if ready { "Ready" } else { "Creating" }),
        );
        if view == View::Full {
            it.maybe("isourl", data.get("url").and_then(Value::as_str));
        }
    }
    if let Some((id, name)) = &row.zone {
        it.put("zoneid", id.to_string())
            .maybe("zonename", name.as_deref());
    }
    it.put("supportsha", at_least("1.16.0"))
        .put("supportsautoscaling", at_least("1.15.0"))
        .put("state", row.state.as_str())
        .put("mincpunumber", row.min_cpu)
        .put("minmemory", row.min_memory_mb)
        .put("directdownload", row.direct_download)
        .put("arch", row.arch.as_str())
        .put("created", date(row.created));
    it.object()
}

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("id", FieldType::String, "the id of the version"),
    Field::new("name", FieldType::String, "its name"),
    Field::new("semanticversion", FieldType::String, "the Kubernetes version"),
    Field::new("isoid", FieldType::String, "the id of the ISO with its binaries"),
    Field::new("isoname", FieldType::String, "the name of that ISO"),
    Field::new("isostate", FieldType::String, "the state of that ISO"),
    Field::new(
        "isourl",
        FieldType::String,
        "where that ISO came from; for administrators",
    ),
    Field::new(
        "zoneid",
        FieldType::String,
        "the id of the only zone that it is for",
    ),
    Field::new("zonename", FieldType::String, "the name of that zone"),
    Field::new(
        "supportsha",
        FieldType::Boolean,
        "whether clusters may have several control nodes",
    ),
    Field::new(
        "supportsautoscaling",
        FieldType::Boolean,
        "whether the autoscaler can run",
    ),
    Field::new("state", FieldType::String, "Enabled or Disabled"),
    Field::new(
        "mincpunumber",
        FieldType::Integer,
        "CPU cores that each node needs",
    ),
    Field::new(
        "minmemory",
        FieldType::Integer,
        "memory in MB that each node needs",
    ),
    Field::new(
        "directdownload",
        FieldType::Boolean,
        "whether hosts fetch the ISO themselves",
    ),
    Field::new("arch", FieldType::String, "the CPU architecture"),
    Field::new("created", FieldType::Date, "when it was registered"),
];
