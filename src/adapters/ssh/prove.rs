//! The proof of a machine's identity (`behaviour.md` 4).

use std::net::IpAddr;

use crate::ports::shell::NodeTarget;

/// What a node says about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// What `/sys/class/dmi/id/product_uuid` held, read plainly and by sudo.
    pub(super) uuids: Vec<String>,
    /// Its host name.
    pub(super) host_name: String,
    /// Its addresses.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether the wrapper is there.
    pub(super) wrapper: bool,
}

impl Evidence {
    /// Reads what the proof script printed.
    pub(super) fn read(text: &str) -> Self {
        let mut evidence = Self::default();
        for line in text.lines() {
            match line.split_once(' ').map(|(key, value)| (key, value.trim())) {
                Some(("uuid", value)) => evidence.uuids.push(value.to_owned()),
                Some(("host", value)) => value.clone_into(&mut evidence.host_name),
                Some(("address", value)) => evidence.addresses.extend(value.parse::<IpAddr>().ok()),
                Some(("wrapper", value)) => evidence.wrapper = value == "yes",
                _ => {}
            }
        }
        evidence
    }

    /// Whether this is the machine; if not, what was found.
    pub(super) fn proves(&self, target: &NodeTarget) -> Result<(), String> {
        let id = target.vm_id.to_string();
        if self.uuids.iter().any(|uuid| uuid.eq_ignore_ascii_case(&id)) {
            return Ok(());
        }
        // The first label, since a node may call itself by its full name.
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let named = !target.vm_name.is_empty() && short(&self.host_name) == short(&target.vm_name);
        let addressed = self
            .addresses
            .iter()
            .any(|address| target.addresses.contains(address));
        if named && addressed {
            return Ok(());
        }
        let list = |items: &[String], none: &str| {
            if items.is_empty() {
                none.to_owned()
            } else {
                items.join(", ")
            }
        };
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        let expected: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
        Err(format!(
            "it is not the expected machine: its machine id is {} and not {id}, and its host name is {} with \
             addresses {} and not {} with {}",
            list(&self.uuids, "not readable"),
            if self.host_name.is_empty() {
                "not known"
            } else {
                &self.host_name
            },
            list(&addresses, "not known"),
            target.vm_name,
            list(&expected, "no known address"),
        ))
    }
}
