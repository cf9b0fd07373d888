//! The object `kubernetescluster` (`cks-facts.md` 1.3).

use serde_json::{Map, Value, json};

use super::Members;
use super::machine::{self, View, machine};
use crate::db::lists::clusters::ClusterRow;
use crate::domain::account::shown_path;
use crate::domain::settings::{ETCD_START_PORT, Settings};
use crate::protocol::command::{Field, FieldType};
use crate::protocol::envelope::date;

/// The cluster as clients see it.
#[must_use]
pub fn cluster(row: &ClusterRow, view: View, settings: &Settings) -> Value {
    let mut it = Members::default();
    it.put("id", row.id.to_string())
        .put("name", row.name.as_str())
        .put("description", row.description.as_deref().unwrap_or(&row.name))
        .put("zoneid", row.zone.0.to_string())
        .maybe("zonename", row.zone.1.as_deref())
        .named("serviceofferingid", "serviceofferingname", row.offering.as_ref())
        .named(
            "controlofferingid",
            "controlofferingname",
            row.control_offering.as_ref(),
        )
        .named(
            "workerofferingid",
            "workerofferingname",
            row.worker_offering.as_ref(),
        )
        .named("etcdofferingid", "etcdofferingname", row.etcd_offering.as_ref())
        .maybe("templateid", row.template.as_ref().map(|(id, _)| id.to_string()))
        .named("networkid", "associatednetworkname", row.network.as_ref())
        .named(
            "kubernetesversionid",
            "kubernetesversionname",
            row.version.as_ref(),
        )
        .maybe("account", row.account.as_deref())
        .named("projectid", "project", row.project.as_ref())
        .put("domainid", row.domain.0.to_string())
        .put("domain", row.domain.1.as_str())
        .put("domainpath", shown_path(&row.domain.2))
        .maybe("keypair", row.key_pair.as_deref())
        .put("masternodes", row.control_count)
        .put("controlnodes", row.control_count)
        .put("etcdnodes", row.etcd_count)
        .maybe("etcdips", etcd_addresses(row, settings))
        .put("size", row.node_count)
        .put("state", row.state.as_str())
        .put("cpunumber", row.cores.to_string())
        .put("memory", row.memory_mb.to_string())
        .put("endpoint", row.endpoint.as_deref().unwrap_or_default());
    if let (false, Some((id, address))) = (row.direct_access, &row.address) {
        it.put("ipaddress", address.as_str())
            .put("ipaddressid", id.to_string());
    }
    let machines: Vec<Value> = row
        .members
        .iter()
        .map(|member| machine(member, view, row.direct_access))
        .collect();
    it.put("virtualmachines", machines)
        .put("autoscalingenabled", row.autoscaling_enabled)
        .maybe("minsize", row.min_size)
        .maybe("maxsize", row.max_size)
        .put("clustertype", row.cluster_type.as_str())
        .maybe("cniconfigurationid", row.cni_config_id.map(|id| id.to_string()))
        .put("csienabled", row.csi_enabled)
        .put("created", date(row.created))
        .put("hasannotations", false);
    if let Some(job) = row.open_job {
        it.put("jobid", job.to_string()).put("jobstatus", 0);
    }
    if row.state == "Alert" {
        it.maybe("statereason", row.state_reason.as_deref());
    }
    it.object()
}

/// The public addresses of the etcd machines that are reached at the port where theirs begin.
fn etcd_addresses(row: &ClusterRow, settings: &Settings) -> Option<Value> {
    let first_port = settings.number(&ETCD_START_PORT);
    let addresses: Map<String, Value> = row
        .members
        .iter()
        .filter(|member| member.etcd)
        .filter_map(|member| {
            let (port, address) = member.ssh.as_ref()?;
            (i64::from(*port) == first_port).then(|| (member.vm_id.to_string(), json!(address)))
        })
        .collect();
    (!addresses.is_empty()).then_some(Value::Object(addresses))
}

/// The declaration.
pub const FIELDS: &[Field] = &[
    Field::new("id", FieldType::String, "the id of the cluster"),
    Field::new("name", FieldType::String, "its name"),
    Field::new("description", FieldType::String, "its description"),
    Field::new("zoneid", FieldType::String, "the id of its zone"),
    Field::new("zonename", FieldType::String, "the name of its zone"),
    Field::new(
        "serviceofferingid",
        FieldType::String,
        "the id of its default offering",
    ),
    Field::new(
        "serviceofferingname",
        FieldType::String,
        "the name of its default offering",
    ),
    Field::new(
        "controlofferingid",
        FieldType::String,
        "the id of the control nodes' own offering",
    ),
    Field::new(
        "controlofferingname",
        FieldType::String,
        "the name of the control nodes' own offering",
    ),
    Field::new(
        "workerofferingid",
        FieldType::String,
        "the id of the workers' own offering",
    ),
    Field::new(
        "workerofferingname",
        FieldType::String,
        "the name of the workers' own offering",
    ),
    Field::new(
        "etcdofferingid",
        FieldType::String,
        "the id of the etcd nodes' own offering",
    ),
    Field::new(
        "etcdofferingname",
        FieldType::String,
        "the name of the etcd nodes' own offering",
    ),
    Field::new("templateid", FieldType::String, "the id of its template"),
    Field::new("networkid", FieldType::String, "the id of its network"),
    Field::new(
        "associatednetworkname",
        FieldType::String,
        "the name of its network",
    ),
    Field::new(
        "kubernetesversionid",
        FieldType::String,
        "the id of its Kubernetes version",
    ),
    Field::new(
        "kubernetesversionname",
        FieldType::String,
        "the name of its Kubernetes version",
    ),
    Field::new("account", FieldType::String, "the account that owns it"),
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
    Field::new("domainid", FieldType::String, "the id of the owner's domain"),
    Field::new("domain", FieldType::String, "the name of the owner's domain"),
    Field::new("domainpath", FieldType::String, "the path of the owner's domain"),
    Field::new("keypair", FieldType::String, "the name of its SSH key pair"),
    Field::new("masternodes", FieldType::Long, "the number of control nodes"),
    Field::new("controlnodes", FieldType::Long, "the number of control nodes"),
    Field::new(
        "etcdnodes",
        FieldType::Long,
        "the number of machines that run etcd alone",
    ),
    Field::new(
        "etcdips",
        FieldType::Map,
        "public addresses of the etcd machines, by machine id",
    ),
    Field::new("size", FieldType::Long, "the number of workers"),
    Field::new("state", FieldType::String, "its state"),
    Field::new("cpunumber", FieldType::String, "CPU cores of all nodes"),
    Field::new("memory", FieldType::String, "memory of all nodes in MB"),
    Field::new("endpoint", FieldType::String, "the address of its Kubernetes API"),
    Field::new(
        "consoleendpoint",
        FieldType::String,
        "the address of its dashboard",
    ),
    Field::new("ipaddress", FieldType::String, "its public address"),
    Field::new("ipaddressid", FieldType::String, "the id of its public address"),
    Field::nested(
        "virtualmachines",
        FieldType::List,
        "its machines",
        machine::FIELDS,
    ),
    Field::new(
        "autoscalingenabled",
        FieldType::Boolean,
        "whether the autoscaler runs in it",
    ),
    Field::new(
        "minsize",
        FieldType::Long,
        "the least number of workers for the autoscaler",
    ),
    Field::new(
        "maxsize",
        FieldType::Long,
        "the greatest number of workers for the autoscaler",
    ),
    Field::new(
        "clustertype",
        FieldType::String,
        "CloudManaged or ExternalManaged",
    ),
    Field::new(
        "cniconfigurationid",
        FieldType::String,
        "the id of its CNI configuration",
    ),
    Field::new(
        "csienabled",
        FieldType::Boolean,
        "whether the CSI driver is deployed",
    ),
    Field::new("created", FieldType::Date, "when it was made"),
    Field::new("hasannotations", FieldType::Boolean, "whether it has annotations"),
    Field::new("jobid", FieldType::String, "the id of the job that owns it now"),
    Field::new("jobstatus", FieldType::Integer, "the status of that job"),
    Field::new(
        "statereason",
        FieldType::String,
        "why it is in Alert (an extension)",
    ),
];
