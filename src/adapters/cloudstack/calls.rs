//! The port's calls as commands with their parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use async_trait::async_trait;
use serde_json::Value;

use super::lists::pair;
use super::wire::{Params, unexpected};
use super::{CloudStackClient, read, user_data};
use crate::domain::id::{
    CloudJobId, IsoId, NetworkId, OfferingId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};
use crate::ports::cloud::{
    Cloud, CloudError, CloudErrorKind, CloudIdentity, CloudJob, DataDisk, FirewallRule, ForwardingRule, Iso,
    Machine, MachineQuery, MachineSpec, Network, Offering, PublicIp, Submitted, Template, Zone,
};
use crate::ports::fault::{Effect, Retry};

pub(super) fn understood<T>(command: &str, object: &str, read: Option<T>) -> Result<T, CloudError> {
    read.ok_or_else(|| unexpected(command, format!("its answer has a {object} that cannot be read")))
}

pub(super) fn member<T: FromStr>(command: &str, answer: &Value, name: &str) -> Result<T, CloudError> {
    read::parsed(answer, name)
        .ok_or_else(|| unexpected(command, format!("its answer has no {name} that can be read")))
}

fn id_param(id: &impl ToString) -> Params {
    vec![pair("id", id.to_string())]
}

#[async_trait]
impl Cloud for CloudStackClient {
    async fn machines(&self, query: &MachineQuery) -> Result<Vec<Machine>, CloudError> {
        const COMMAND: &str = "listVirtualMachines";
        let mut params = Params::new();
        if let Some(name) = &query.name {
            params.push(pair("name", name));
        }
        if let Some(network) = query.network_id {
            params.push(pair("networkid", network.to_string()));
        }
        let found = if query.ids.is_empty() {
            self.lists
                .everyone(&self.wire, COMMAND, "virtualmachine", &params)
                .await?
        } else {
            self.lists
                .machines_by_ids(&self.wire, &query.ids, &params)
                .await?
        };
        let machines: Result<Vec<Machine>, CloudError> = found
            .into_iter()
            .map(|item| understood(COMMAND, "virtualmachine", read::machine(item)))
            .collect();
        let mut machines = machines?;
        // Some servers match a part of the name.
        if let Some(name) = &query.name {
            machines.retain(|machine| machine.name == *name);
        }
        Ok(machines)
    }

    async fn deploy(&self, spec: &MachineSpec) -> Result<Submitted<VmId>, CloudError> {
        const COMMAND: &str = "deployVirtualMachine";
        let user_data = user_data::encode(&spec.user_data).map_err(|e| CloudError {
            command: COMMAND.to_owned(),
            text: e.to_string(),
            kind: CloudErrorKind::Answer(431),
            effect: Effect::DidNotHappen,
            retry: Retry::Never,
        })?;
        let mut params = vec![
            pair("name", &spec.name),
            pair("displayname", &spec.name),
            pair("zoneid", spec.zone_id.to_string()),
            pair("serviceofferingid", spec.offering_id.to_string()),
            pair("templateid", spec.template_id.to_string()),
            pair("networkids", spec.network_id.to_string()),
            pair("userdata", user_data),
        ];
        if let Some(key_pair) = &spec.key_pair {
            params.push(pair("keypair", key_pair));
        }
        // The two exclude one another.
        if let Some(project) = spec.project_id {
            params.push(pair("projectid", project.to_string()));
        } else if let Some((account, domain)) = &spec.account {
            params.push(pair("account", account));
            params.push(pair("domainid", domain.to_string()));
        }
        self.create(COMMAND, params).await
    }

    async fn start(&self, id: VmId) -> Result<CloudJobId, CloudError> {
        self.submit("startVirtualMachine", id_param(&id)).await
    }

    async fn stop(&self, id: VmId) -> Result<CloudJobId, CloudError> {
        self.submit("stopVirtualMachine", id_param(&id)).await
    }

    async fn destroy(&self, id: VmId) -> Result<CloudJobId, CloudError> {
        self.submit("destroyVirtualMachine", id_param(&id)).await
    }

    async fn expunge(&self, id: VmId) -> Result<CloudJobId, CloudError> {
        self.submit("expungeVirtualMachine", id_param(&id)).await
    }

    async fn resize(&self, id: VmId, offering: OfferingId) -> Result<CloudJobId, CloudError> {
        let mut params = id_param(&id);
        params.push(pair("serviceofferingid", offering.to_string()));
        self.submit("scaleVirtualMachine", params).await
    }

    async fn attach_iso(&self, id: VmId, iso: IsoId) -> Result<CloudJobId, CloudError> {
        let params = vec![
            pair("id", iso.to_string()),
            pair("virtualmachineid", id.to_string()),
        ];
        self.submit("attachIso", params).await
    }

    async fn detach_iso(&self, id: VmId) -> Result<CloudJobId, CloudError> {
        self.submit("detachIso", vec![pair("virtualmachineid", id.to_string())])
            .await
    }

    async fn job(&self, id: CloudJobId) -> Result<CloudJob, CloudError> {
        const COMMAND: &str = "queryAsyncJobResult";
        match self.wire.call(COMMAND, &[pair("jobid", id.to_string())]).await {
            Ok(answer) => read::job(&answer)
                .ok_or_else(|| unexpected(COMMAND, "its answer has no jobstatus that can be read")),
            Err(error) if error.kind == CloudErrorKind::NotFound => Ok(CloudJob::Unknown),
            Err(error) => Err(error),
        }
    }

    async fn data_disks(&self, id: VmId) -> Result<Vec<DataDisk>, CloudError> {
        let params = vec![pair("virtualmachineid", id.to_string()), pair("type", "DATADISK")];
        self.list("listVolumes", "volume", params, read::data_disk).await
    }

    async fn public_ips(&self, network: NetworkId) -> Result<Vec<PublicIp>, CloudError> {
        let params = vec![pair("associatednetworkid", network.to_string())];
        self.list(
            "listPublicIpAddresses",
            "publicipaddress",
            params,
            read::public_ip,
        )
        .await
    }

    async fn forwarding_rules(&self, ip: PublicIpId) -> Result<Vec<ForwardingRule>, CloudError> {
        let params = vec![pair("ipaddressid", ip.to_string())];
        self.list(
            "listPortForwardingRules",
            "portforwardingrule",
            params,
            read::forwarding_rule,
        )
        .await
    }

    async fn create_forwarding_rule(
        &self,
        ip: PublicIpId,
        public_port: u16,
        vm: VmId,
        private_port: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        let params = vec![
            pair("ipaddressid", ip.to_string()),
            pair("protocol", "tcp"),
            pair("publicport", public_port.to_string()),
            pair("privateport", private_port.to_string()),
            pair("virtualmachineid", vm.to_string()),
            // The firewall rule is made apart, and only when no range covers the port.
            pair("openfirewall", "false"),
        ];
        self.create("createPortForwardingRule", params).await
    }

    async fn delete_forwarding_rule(&self, id: RuleId) -> Result<CloudJobId, CloudError> {
        self.submit("deletePortForwardingRule", id_param(&id)).await
    }

    async fn firewall_rules(&self, ip: PublicIpId) -> Result<Vec<FirewallRule>, CloudError> {
        let params = vec![pair("ipaddressid", ip.to_string())];
        self.list("listFirewallRules", "firewallrule", params, read::firewall_rule)
            .await
    }

    async fn create_firewall_rule(
        &self,
        ip: PublicIpId,
        start_port: u16,
        end_port: u16,
    ) -> Result<Submitted<RuleId>, CloudError> {
        let params = vec![
            pair("ipaddressid", ip.to_string()),
            pair("protocol", "tcp"),
            pair("startport", start_port.to_string()),
            pair("endport", end_port.to_string()),
            pair("cidrlist", "0.0.0.0/0"),
        ];
        self.create("createFirewallRule", params).await
    }

    async fn delete_firewall_rule(&self, id: RuleId) -> Result<CloudJobId, CloudError> {
        self.submit("deleteFirewallRule", id_param(&id)).await
    }

    async fn network(&self, id: NetworkId) -> Result<Option<Network>, CloudError> {
        self.one("listNetworks", "network", id_param(&id), read::network)
            .await
    }

    async fn offering(&self, id: OfferingId) -> Result<Option<Offering>, CloudError> {
        self.one(
            "listServiceOfferings",
            "serviceoffering",
            id_param(&id),
            read::offering,
        )
        .await
    }

    async fn template(&self, id: TemplateId) -> Result<Option<Template>, CloudError> {
        self.image(
            "listTemplates",
            "template",
            "templatefilter",
            id.to_string(),
            read::template,
        )
        .await
    }

    async fn iso(&self, id: IsoId) -> Result<Option<Iso>, CloudError> {
        self.image("listIsos", "iso", "isofilter", id.to_string(), read::iso)
            .await
    }

    async fn zone(&self, id: ZoneId) -> Result<Option<Zone>, CloudError> {
        self.one("listZones", "zone", id_param(&id), read::zone).await
    }

    async fn identity(&self) -> Result<CloudIdentity, CloudError> {
        let apis = self.wire.call("listApis", &[]).await?;
        let commands: BTreeSet<String> = apis
            .get("api")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|api| read::text(api, "name"))
            .collect();
        // getUser is for administrators on many servers; the others see themselves in listUsers.
        let key = self.wire.api_key();
        let user = match self.wire.call("getUser", &[pair("userapikey", key)]).await {
            Ok(answer) => answer.get("user").cloned(),
            Err(error) if error.kind == CloudErrorKind::Away => return Err(error),
            Err(_) => {
                self.lists
                    .one(&self.wire, "listUsers", "user", Params::new())
                    .await?
            }
        };
        let user = user.ok_or_else(|| unexpected("getUser", "its answer has no user"))?;
        Ok(CloudIdentity {
            user: read::text(&user, "username").unwrap_or_default(),
            account: read::text(&user, "account").unwrap_or_default(),
            commands,
        })
    }

    async fn details(&self, id: VmId) -> Result<BTreeMap<String, String>, CloudError> {
        const COMMAND: &str = "listVirtualMachines";
        let mut params = id_param(&id);
        params.push(pair("details", "all"));
        let found = self
            .lists
            .one(&self.wire, COMMAND, "virtualmachine", params)
            .await?;
        Ok(found.as_ref().map(read::details).unwrap_or_default())
    }
}
