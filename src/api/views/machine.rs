//! A machine of a cluster (`virtualmachines[]`): what the cloud sent, cut to what clients may see.

use serde_json::{Map, Value, json};

use crate::db::lists::clusters::MemberRow;
use crate::protocol::command::{Field, FieldType};

/// Whether a reply is for somebody who administers everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// It is.
    Full,
    /// It is not.
    Restricted,
}

/// Members of the cloud's machine that are passed on.
const PASSED: &[&str] = &[
    "id",
    "name",
    "displayname",
    "account",
    "userid",
    "username",
    "projectid",
    "project",
    "domainid",
    "domain",
    "domainpath",
    "created",
    "lastupdated",
    "state",
    "haenable",
    "groupid",
    "group",
    "zoneid",
    "zonename",
    "templateid",
    "templatename",
    "templatedisplaytext",
    "templatetype",
    "passwordenabled",
    "isoid",
    "isoname",
    "isodisplaytext",
    "serviceofferingid",
    "serviceofferingname",
    "cpunumber",
    "cpuspeed",
    "memory",
    "guestosid",
    "rootdeviceid",
    "rootdevicetype",
    "securitygroup",
    "nic",
    "hypervisor",
    "publicip",
    "publicipid",
    "keypair",
    "keypairs",
    "affinitygroup",
    "displayvm",
    "isdynamicallyscalable",
    "ostypeid",
    "osdisplayname",
    "tags",
    "hasannotations",
    "deleteprotection",
    "arch",
    "vmtype",
];
/// Members that only an administrator of everything sees.
const FOR_ADMINS: &[&str] = &["hostid", "hostname", "hostcontrolstate", "instancename"];
/// Members that clients expect to be an array even if it is empty.
const ARRAYS: &[&str] = &["nic", "tags", "securitygroup", "affinitygroup"];

/// The machine of a member.
#[must_use]
pub fn machine(member: &MemberRow, view: View, direct_access: bool) -> Value {
    let mut object = Map::new();
    let seen = member.machine.as_ref().and_then(Value::as_object);
    let names = PASSED.iter().chain(match view {
        View::Full => FOR_ADMINS,
        View::Restricted => &[],
    });
    for name in names {
        if let Some(value) = seen
            .and_then(|seen| seen.get(*name))
            .filter(|value| !value.is_null())
        {
            object.insert((*name).to_owned(), value.clone());
        }
    }
    object
        .entry("id")
        .or_insert_with(|| json!(member.vm_id.to_string()));
    object.entry("name").or_insert_with(|| json!(member.vm_name));
    object
        .entry("displayname")
        .or_insert_with(|| json!(member.vm_name));
    for name in ARRAYS {
        object.entry(*name).or_insert_with(|| json!([]));
    }
    if let Some(details) = seen
        .and_then(|seen| seen.get("details"))
        .and_then(Value::as_object)
    {
        object.insert("details".to_owned(), plain_details(details));
    }
    object.insert("isexternalnode".to_owned(), json!(member.external));
    object.insert("isetcdnode".to_owned(), json!(member.etcd));
    if let Some(version) = &member.node_version {
        object.insert("kubernetesnodeversion".to_owned(), json!(version));
    }
    match &member.ssh {
        Some((port, _)) => {
            object.insert("sshport".to_owned(), json!(port));
        }
        None if direct_access => {
            object.insert("sshport".to_owned(), json!(22));
        }
        None => {}
    }
    Value::Object(object)
}

/// Details that are texts and whose names promise no secret.
fn plain_details(details: &Map<String, Value>) -> Value {
    let secret = |name: &str| {
        let name = name.to_lowercase();
        ["password", "secret", "token", "key"]
            .iter()
            .any(|word| name.contains(word))
    };
    Value::Object(
        details
            .iter()
            .filter(|(name, value)| value.is_string() && !secret(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

const NIC: &[Field] = &[
    Field::new("id", FieldType::String, "the id of the card"),
    Field::new("networkid", FieldType::String, "the id of its network"),
    Field::new("networkname", FieldType::String, "the name of its network"),
    Field::new("ipaddress", FieldType::String, "its address"),
    Field::new("macaddress", FieldType::String, "its hardware address"),
    Field::new("isdefault", FieldType::Boolean, "whether it is the default card"),
];

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("id", FieldType::String, "the id of the machine"),
    Field::new("name", FieldType::String, "its name, which is its host name"),
    Field::new("displayname", FieldType::String, "its name for people"),
    Field::new("account", FieldType::String, "the account that owns it"),
    Field::new("domainid", FieldType::String, "the id of the owner's domain"),
    Field::new("domain", FieldType::String, "the name of the owner's domain"),
    Field::new(
        "projectid",
        FieldType::String,
        "the id of the project that owns it",
    ),
    Field::new(
        "project",
        FieldType::String,
        "the name of the project that owns it",
    ),
    Field::new("created", FieldType::Date, "when it was made"),
    Field::new("state", FieldType::String, "its state when it was last seen"),
    Field::new("zoneid", FieldType::String, "the id of its zone"),
    Field::new("zonename", FieldType::String, "the name of its zone"),
    Field::new("templateid", FieldType::String, "the id of its template"),
    Field::new("templatename", FieldType::String, "the name of its template"),
    Field::new("serviceofferingid", FieldType::String, "the id of its offering"),
    Field::new(
        "serviceofferingname",
        FieldType::String,
        "the name of its offering",
    ),
    Field::new("cpunumber", FieldType::Integer, "its CPU cores"),
    Field::new("cpuspeed", FieldType::Integer, "MHz of each core"),
    Field::new("memory", FieldType::Integer, "its memory in MB"),
    Field::new("hypervisor", FieldType::String, "the hypervisor that it runs on"),
    Field::new(
        "hostid",
        FieldType::String,
        "the id of its host; for administrators",
    ),
    Field::new(
        "hostname",
        FieldType::String,
        "the name of its host; for administrators",
    ),
    Field::new(
        "instancename",
        FieldType::String,
        "its name on the host; for administrators",
    ),
    Field::new("isoid", FieldType::String, "the id of the ISO in its drive"),
    Field::new("isoname", FieldType::String, "the name of the ISO in its drive"),
    Field::nested("nic", FieldType::List, "its network cards", NIC),
    Field::new("details", FieldType::Map, "details of it"),
    Field::new(
        "isexternalnode",
        FieldType::Boolean,
        "whether the user brought it into the cluster",
    ),
    Field::new("isetcdnode", FieldType::Boolean, "whether it runs etcd alone"),
    Field::new(
        "kubernetesnodeversion",
        FieldType::String,
        "the recorded version of its kubelet",
    ),
    Field::new(
        "sshport",
        FieldType::Integer,
        "the port at which its SSH is reached (an extension)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::VmId;

    fn member() -> MemberRow {
        MemberRow {
            vm_id: VmId(uuid::Uuid::from_u128(5)),
            vm_name: "web-node-1".to_owned(),
            etcd: false,
            external: true,
            node_version: Some("1.32.5".to_owned()),
            machine: Some(json!({
                "id": "00000000-0000-0000-0000-000000000005", "name": "web-node-1", "state": "Running",
                "hostname": "host-7", "instancename": "i-2-5-VM", "password": "hunter2", "userdata": "abc",
                "cpunumber": 2, "gpu": null,
                "nic": [{"ipaddress": "10.1.1.5"}],
                "details": {"controlNodeLoginUser": "cloud", "rootPassword": "hunter2", "size": 3},
            })),
            ssh: Some((2222, "192.0.2.1".to_owned())),
        }
    }

    #[test]
    fn a_machine_shows_what_may_be_seen_and_no_secret() {
        assert_eq!(
            machine(&member(), View::Restricted, false).to_string(),
            r#"{"id":"00000000-0000-0000-0000-000000000005","name":"web-node-1","state":"Running","cpunumber":2,"nic":[{"ipaddress":"10.1.1.5"}],"displayname":"web-node-1","tags":[],"securitygroup":[],"affinitygroup":[],"details":{"controlNodeLoginUser":"cloud"},"isexternalnode":true,"isetcdnode":false,"kubernetesnodeversion":"1.32.5","sshport":2222}"#
        );
        let full = machine(&member(), View::Full, false);
        assert_eq!(
            (&full["hostname"], &full["instancename"]),
            (&json!("host-7"), &json!("i-2-5-VM"))
        );
        assert!(!full.to_string().contains("hunter2"));
    }

    #[test]
    fn a_machine_that_was_never_seen_has_id_and_name() {
        let unseen = MemberRow {
            machine: None,
            ssh: None,
            node_version: None,
            ..member()
        };
        assert_eq!(
            machine(&unseen, View::Full, true).to_string(),
            r#"{"id":"00000000-0000-0000-0000-000000000005","name":"web-node-1","displayname":"web-node-1","nic":[],"tags":[],"securitygroup":[],"affinitygroup":[],"isexternalnode":true,"isetcdnode":false,"sshport":22}"#
        );
        assert!(machine(&unseen, View::Full, false).get("sshport").is_none());
    }
}
