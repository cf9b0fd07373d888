//! What a node asks of the world: tokens, joins, its kubelet, its power.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::World;
use crate::lab::cloud::work::Work;
use crate::lab::node::NodeHost;
use crate::lab::record::API_PORT;

/// The world, as nodes see it.
pub(super) struct Host(Weak<World>);

impl Host {
    /// For the nodes of a world.
    pub(super) fn of(world: Weak<World>) -> Arc<dyn NodeHost> {
        Arc::new(Self(world))
    }

    fn world(&self) -> Result<Arc<World>, String> {
        self.0
            .upgrade()
            .ok_or_else(|| "the lab is shutting down".to_owned())
    }
}

#[async_trait]
impl NodeHost for Host {
    async fn create_join_token(&self, vm_id: Uuid, ttl: Duration) -> Result<String, String> {
        let world = self.world()?;
        let guest = world
            .cloud
            .read(|state| state.vm(vm_id).map(|vm| vm.guest.clone()));
        let guest = guest.filter(|guest| guest.control);
        let name = guest.and_then(|guest| guest.cluster);
        let name = name.ok_or("this machine is no control node of a cluster")?;
        let cluster = world.record.clusters.iter().find(|have| have.name == name);
        let cluster = cluster.ok_or("the cluster of this machine is unknown")?;
        let (token, hash) = world.kubes.token(&name, ttl)?;
        Ok(format!(
            "kubeadm join {}:{API_PORT} --token {token} --discovery-token-ca-cert-hash {hash}",
            cluster.kube_address
        ))
    }

    async fn join(&self, vm_id: Uuid, args: Vec<String>) -> Result<String, String> {
        let world = self.world()?;
        let wanted = JoinArgs::read(&args)?;
        let cluster = world.record.clusters.iter().find(|have| {
            [have.kube_address, have.public_ip]
                .iter()
                .any(|ip| wanted.server == format!("{ip}:{API_PORT}"))
        });
        let cluster = cluster.ok_or_else(|| format!("no API server answers at {}", wanted.server))?;
        let node = world
            .cloud
            .read(|state| state.vm(vm_id).map(|vm| vm.name.to_lowercase()));
        let node = node.ok_or("this machine is unknown to the cloud")?;
        let kubeconfig = world.kubes.join(cluster, &wanted.token, &node)?;
        world.cloud.change(|state| {
            if let Some(vm) = state.vm_mut(vm_id) {
                vm.guest.cluster = Some(cluster.name.clone());
                vm.guest.control = wanted.control;
                vm.guest.kubeconfig = Some(kubeconfig.clone());
                vm.guest.kubelet = true;
                vm.guest.kubelet_version = format!("v{}", cluster.version);
            }
        });
        Ok(kubeconfig)
    }

    async fn kubelet(&self, vm_id: Uuid, running: bool) {
        if let Ok(world) = self.world() {
            world.cloud.change(|state| {
                if let Some(vm) = state.vm_mut(vm_id) {
                    vm.guest.kubelet = running;
                }
            });
        }
    }

    async fn power(&self, vm_id: Uuid, again: bool) -> bool {
        let Ok(world) = self.world() else {
            return false;
        };
        let (command, work) = if again {
            ("rebootVirtualMachine", Work::Reboot { vm: vm_id })
        } else {
            ("stopVirtualMachine", Work::Stop { vm: vm_id })
        };
        let user = world.cloud.read(|state| state.vm(vm_id).map(|vm| vm.user));
        let Some(user) = user else {
            return false;
        };
        let instance = Some(("VirtualMachine".to_owned(), vm_id));
        let job = world
            .cloud
            .change(|state| state.add_job(command, user, instance, work));
        world.cloud.spawn_job(job);
        true
    }
}

/// The words after `kubeadm join` that matter.
#[derive(Debug, PartialEq, Eq)]
struct JoinArgs {
    server: String,
    token: String,
    control: bool,
}

impl JoinArgs {
    fn read(args: &[String]) -> Result<Self, String> {
        let mut server = None;
        let mut token = None;
        let mut control = false;
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            match name {
                "--token" => token = inline.or_else(|| words.next().cloned()),
                "--control-plane" => control = true,
                "--discovery-token-unsafe-skip-ca-verification" => {}
                _ if name.starts_with("--") => {
                    if inline.is_none() {
                        words.next();
                    }
                }
                _ => server = Some(word.clone()),
            }
        }
        Ok(Self {
            server: server.ok_or("no API server is named")?,
            token: token.ok_or("no --token is given")?,
            control,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<JoinArgs, String> {
        JoinArgs::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_line_of_a_join_is_understood() {
        let wanted = JoinArgs {
            server: "127.9.9.201:6443".into(),
            token: "a.b".into(),
            control: false,
        };
        let line = "127.9.9.201:6443 --token a.b --discovery-token-ca-cert-hash sha256:00";
        assert_eq!(read(line).unwrap(), wanted);
        let line = "--token=a.b --discovery-token-unsafe-skip-ca-verification 127.9.9.201:6443";
        assert_eq!(read(line).unwrap(), wanted);
        assert!(
            read("127.9.9.201:6443 --token a.b --control-plane --certificate-key k")
                .unwrap()
                .control
        );
        assert!(read("127.9.9.201:6443").is_err());
        assert!(read("--token a.b").is_err());
    }
}
