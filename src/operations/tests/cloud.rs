//! The double of the cloud.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::faults::Mode;
use super::things;
use super::world::{self, ADDRESS, Doing, State, World};
use crate::domain::id::{
    CloudJobId, IsoId, NetworkId, OfferingId, PublicIpId, RuleId, TemplateId, VmId, ZoneId,
};
use crate::domain::observed::{
    DataDisk, FirewallRule, ForwardingRule, Machine, MachineState, Network, PublicIp,
};
use crate::ports::cloud::{
    Cloud, CloudError, CloudErrorKind, CloudIdentity, CloudJob, Iso, MachineQuery, MachineSpec, Offering,
    Submitted, Template, Zone,
};
use crate::ports::fault::{Effect, Retry};

type Answer<T> = Result<T, CloudError>;

fn failed(command: &str, mode: Mode) -> CloudError {
    CloudError {
        command: command.to_owned(),
        text: format!("fault injected ({mode:?})"),
        kind: if mode.away() {
            CloudErrorKind::Away
        } else {
            CloudErrorKind::Answer(530)
        },
        effect: mode.effect(),
        retry: mode.retry(),
    }
}

fn refused(command: &str, text: &str) -> CloudError {
    CloudError {
        command: command.to_owned(),
        text: text.to_owned(),
        kind: CloudErrorKind::Answer(431),
        effect: Effect::DidNotHappen,
        retry: Retry::Never,
    }
}

impl World {
    async fn cloud<T>(&self, command: &str, apply: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
        let name = format!("cloud.{command}");
        self.pass(&name).await;
        self.call(&name, apply, |mode| failed(command, mode))
    }

    async fn on_machine(
        &self,
        command: &str,
        id: VmId,
        allowed: &[MachineState],
        doing: Doing,
    ) -> Answer<CloudJobId> {
        self.cloud(command, |state| {
            let Some(machine) = state.machines.get(&id) else {
                return Err(CloudError {
                    kind: CloudErrorKind::NotFound,
                    ..refused(command, "unable to find a virtual machine with that id")
                });
            };
            if !allowed.is_empty() && !allowed.contains(&machine.state) {
                let text = format!("the machine is in state {:?}", machine.state);
                return Err(refused(command, &text));
            }
            Ok(state.submit(doing))
        })
        .await
    }
}

#[async_trait]
impl Cloud for World {
    async fn machines(&self, query: &MachineQuery) -> Answer<Vec<Machine>> {
        self.cloud("listVirtualMachines", |state| {
            let chosen = state.machines.values().filter(|machine| {
                (query.ids.is_empty() || query.ids.contains(&machine.id))
                    && query.name.as_ref().is_none_or(|name| *name == machine.name)
                    && query
                        .network_id
                        .is_none_or(|network| machine.nics.iter().any(|nic| nic.network_id == network))
            });
            Ok(chosen.cloned().collect())
        })
        .await
    }

    async fn deploy(&self, spec: &MachineSpec) -> Answer<Submitted<VmId>> {
        self.cloud("deployVirtualMachine", |state| {
            if state.machines.values().any(|machine| machine.name == spec.name) {
                return Err(refused("deployVirtualMachine", "a machine of that name exists"));
            }
            let id = VmId(state.new_id());
            let number = u8::try_from(100 + state.machines.len()).unwrap();
            let mut machine = things::machine(number, &spec.name);
            machine.id = id;
            machine.state = MachineState::Starting;
            machine.offering_id = Some(spec.offering_id);
            if spec.offering_id == world::big_offering_id() {
                (machine.cpu_number, machine.memory_mb) = (4, 8192);
            }
            machine.raw = serde_json::json!({ "id": id, "name": spec.name });
            state.machines.insert(id, machine);
            state.made.push(id);
            state.user_data.insert(id, spec.user_data.clone());
            let job = state.submit(Doing::Deploy(id));
            Ok(Submitted { id, job })
        })
        .await
    }

    async fn start(&self, id: VmId) -> Answer<CloudJobId> {
        self.on_machine(
            "startVirtualMachine",
            id,
            &[MachineState::Stopped],
            Doing::Start(id),
        )
        .await
    }

    async fn stop(&self, id: VmId) -> Answer<CloudJobId> {
        self.on_machine("stopVirtualMachine", id, &[], Doing::Stop(id))
            .await
    }

    async fn destroy(&self, id: VmId) -> Answer<CloudJobId> {
        self.on_machine(
            "destroyVirtualMachine",
            id,
            &[
                MachineState::Running,
                MachineState::Stopped,
                MachineState::Error,
                MachineState::Starting,
            ],
            Doing::Destroy(id),
        )
        .await
    }

    async fn expunge(&self, id: VmId) -> Answer<CloudJobId> {
        self.on_machine(
            "expungeVirtualMachine",
            id,
            &[MachineState::Destroyed, MachineState::Expunging],
            Doing::Expunge(id),
        )
        .await
    }

    async fn resize(&self, id: VmId, offering: OfferingId) -> Answer<CloudJobId> {
        self.on_machine("scaleVirtualMachine", id, &[], Doing::Resize(id, offering))
            .await
    }

    async fn attach_iso(&self, id: VmId, iso: IsoId) -> Answer<CloudJobId> {
        self.on_machine("attachIso", id, &[], Doing::Iso(id, Some(iso)))
            .await
    }

    async fn detach_iso(&self, id: VmId) -> Answer<CloudJobId> {
        self.on_machine("detachIso", id, &[], Doing::Iso(id, None)).await
    }

    async fn job(&self, id: CloudJobId) -> Answer<CloudJob> {
        self.cloud("queryAsyncJobResult", |state| {
            Ok(match state.work.get(&id).map(|work| work.ended.clone()) {
                None => CloudJob::Unknown,
                Some(None) => CloudJob::Pending,
                Some(Some(Ok(()))) => CloudJob::Succeeded,
                Some(Some(Err(text))) => CloudJob::Failed { code: 530, text },
            })
        })
        .await
    }

    async fn data_disks(&self, _: VmId) -> Answer<Vec<DataDisk>> {
        self.cloud("listVolumes", |_| Ok(Vec::new())).await
    }

    async fn public_ips(&self, _: NetworkId) -> Answer<Vec<PublicIp>> {
        self.cloud("listPublicIpAddresses", |_| {
            Ok(vec![PublicIp {
                id: world::ip_id(),
                address: ADDRESS,
                source_nat: true,
            }])
        })
        .await
    }

    async fn forwarding_rules(&self, ip: PublicIpId) -> Answer<Vec<ForwardingRule>> {
        self.cloud("listPortForwardingRules", |state| {
            Ok(state
                .forwards
                .iter()
                .filter(|rule| rule.ip_id == ip)
                .cloned()
                .collect())
        })
        .await
    }

    async fn create_forwarding_rule(
        &self,
        ip: PublicIpId,
        public_port: u16,
        vm: VmId,
        private_port: u16,
    ) -> Answer<Submitted<RuleId>> {
        self.cloud("createPortForwardingRule", |state| {
            if state.forwards.iter().any(|rule| rule.public_port == public_port) {
                return Err(CloudError {
                    kind: CloudErrorKind::Answer(537),
                    ..refused("createPortForwardingRule", "the port is taken by another rule")
                });
            }
            let id = RuleId(state.new_id());
            state.forwards.push(ForwardingRule {
                id,
                ip_id: ip,
                address: ADDRESS,
                public_port,
                public_end_port: public_port,
                private_port,
                protocol: "tcp".into(),
                vm_id: Some(vm),
                revoked: false,
            });
            let name = state.name_of(vm);
            state.did(format!("forward {public_port} to {name}:{private_port}"));
            let job = state.submit(Doing::Forward);
            Ok(Submitted { id, job })
        })
        .await
    }

    async fn delete_forwarding_rule(&self, id: RuleId) -> Answer<CloudJobId> {
        self.cloud("deletePortForwardingRule", |state| {
            let Some(rule) = state.forwards.iter_mut().find(|rule| rule.id == id) else {
                return Err(CloudError {
                    kind: CloudErrorKind::NotFound,
                    ..refused("deletePortForwardingRule", "no such rule")
                });
            };
            rule.revoked = true;
            let port = rule.public_port;
            state.did(format!("unforward {port}"));
            Ok(state.submit(Doing::Unforward(id)))
        })
        .await
    }

    async fn firewall_rules(&self, _: PublicIpId) -> Answer<Vec<FirewallRule>> {
        self.cloud("listFirewallRules", |state| Ok(state.firewalls.clone()))
            .await
    }

    async fn create_firewall_rule(
        &self,
        ip: PublicIpId,
        start_port: u16,
        end_port: u16,
    ) -> Answer<Submitted<RuleId>> {
        self.cloud("createFirewallRule", |state| {
            let same = state
                .firewalls
                .iter()
                .any(|rule| rule.start_port == Some(start_port));
            if same {
                return Err(CloudError {
                    kind: CloudErrorKind::Answer(537),
                    ..refused("createFirewallRule", "the range is taken by another rule")
                });
            }
            let id = RuleId(state.new_id());
            state.firewalls.push(FirewallRule {
                id,
                ip_id: ip,
                protocol: "tcp".into(),
                start_port: Some(start_port),
                end_port: Some(end_port),
                revoked: false,
            });
            state.did(format!("open {start_port}"));
            let job = state.submit(Doing::Firewall);
            Ok(Submitted { id, job })
        })
        .await
    }

    async fn delete_firewall_rule(&self, id: RuleId) -> Answer<CloudJobId> {
        self.cloud("deleteFirewallRule", |state| {
            let Some(rule) = state.firewalls.iter_mut().find(|rule| rule.id == id) else {
                return Err(CloudError {
                    kind: CloudErrorKind::NotFound,
                    ..refused("deleteFirewallRule", "no such rule")
                });
            };
            rule.revoked = true;
            let port = rule.start_port.unwrap_or_default();
            state.did(format!("close {port}"));
            Ok(state.submit(Doing::Unfirewall(id)))
        })
        .await
    }

    async fn network(&self, id: NetworkId) -> Answer<Option<Network>> {
        self.cloud("listNetworks", |_| {
            Ok(Some(Network {
                id,
                name: "net".into(),
                kind: "Isolated".into(),
                vpc_id: None,
                routed: false,
            }))
        })
        .await
    }

    async fn offering(&self, id: OfferingId) -> Answer<Option<Offering>> {
        self.cloud("listServiceOfferings", |_| {
            let big = id == world::big_offering_id();
            Ok(Some(Offering {
                id,
                name: if big { "big".into() } else { "small".into() },
                cpu_number: Some(if big { 4 } else { 2 }),
                cpu_speed: Some(2000),
                memory_mb: Some(if big { 8192 } else { 4096 }),
                customized: false,
            }))
        })
        .await
    }

    async fn template(&self, id: TemplateId) -> Answer<Option<Template>> {
        self.cloud("listTemplates", |_| {
            Ok(Some(Template {
                id,
                name: "node".into(),
                ready: true,
            }))
        })
        .await
    }

    async fn iso(&self, id: IsoId) -> Answer<Option<Iso>> {
        self.cloud("listIsos", |_| {
            Ok(Some(Iso {
                id,
                name: "binaries".into(),
                ready: true,
                size_bytes: None,
            }))
        })
        .await
    }

    async fn zone(&self, id: ZoneId) -> Answer<Option<Zone>> {
        self.cloud("listZones", |_| {
            Ok(Some(Zone {
                id,
                name: "zone".into(),
            }))
        })
        .await
    }

    async fn identity(&self) -> Answer<CloudIdentity> {
        self.cloud("listApis", |_| {
            let commands = ["destroyVirtualMachine", "expungeVirtualMachine"]
                .map(str::to_owned)
                .into();
            Ok(CloudIdentity {
                user: "admin".into(),
                account: "admin".into(),
                commands,
            })
        })
        .await
    }

    async fn details(&self, _: VmId) -> Answer<BTreeMap<String, String>> {
        self.cloud("listVirtualMachines.details", |_| Ok(BTreeMap::new()))
            .await
    }
}
