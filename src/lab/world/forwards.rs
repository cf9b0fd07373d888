//! The listeners of rules: there while a rule is Active, and passing on what the firewall lets pass.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{World, held};
use crate::lab::cloud::model::{CloudState, RuleState};
use crate::lab::node::LabNode;
use crate::lab::record::API_PORT;

/// A public address and port.
pub(super) type Place = (Ipv4Addr, u16);

const SSH_PORT: u16 = 22;

/// Where a connection goes.
enum Target {
    /// The SSH server of a machine.
    Ssh(LabNode),
    /// The API of a cluster.
    Api(SocketAddrV4),
}

impl World {
    /// Opens the listeners of Active rules and closes all others.
    pub(super) async fn settle_listeners(self: &World) {
        let wanted = self.cloud.read(places);
        let missing: Vec<Place> = {
            let mut listeners = held(&self.listeners);
            listeners.retain(|place, stop| {
                let keep = wanted.contains(place) && !stop.is_cancelled();
                if !keep {
                    stop.cancel();
                }
                keep
            });
            wanted
                .into_iter()
                .filter(|place| !listeners.contains_key(place))
                .collect()
        };
        for place in missing {
            match TcpListener::bind(place).await {
                Ok(listener) => {
                    let stop = self.stop.child_token();
                    held(&self.listeners).insert(place, stop.clone());
                    self.listen(place, listener, stop);
                }
                Err(error) => {
                    tracing::error!(address = %place.0, port = place.1, %error, "a rule has no listener");
                }
            }
        }
    }

    fn listen(&self, place: Place, listener: TcpListener, stop: CancellationToken) {
        let Some(world) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            loop {
                let accepted = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                // A connection that broke before it was accepted is not ours to mourn.
                if let Ok((stream, _)) = accepted {
                    let world = Arc::clone(&world);
                    let end = world.stop.clone();
                    let tasks = world.tasks.clone();
                    tasks.spawn(async move {
                        tokio::select! {
                            () = end.cancelled() => {}
                            () = world.pass(place, stream) => {}
                        }
                    });
                }
            }
        });
    }

    async fn pass(&self, place: Place, mut stream: TcpStream) {
        match self.target(place) {
            Some(Target::Ssh(node)) => node.serve(stream).await,
            Some(Target::Api(address)) => {
                let Ok(mut server) = TcpStream::connect(address).await else {
                    reset(&stream);
                    return;
                };
                stream.set_nodelay(true).ok();
                server.set_nodelay(true).ok();
                // Either side may close when it likes.
                copy_bidirectional(&mut stream, &mut server).await.ok();
            }
            None => reset(&stream),
        }
    }

    /// What answers on a public port now; none: firewall, machine or server stand in the way.
    fn target(&self, (address, port): Place) -> Option<Target> {
        let (vm, inner, control, cluster) = self.cloud.read(|state| {
            let (vm, inner) = machine_at(state, address, port)?;
            let vm = state.vm(vm).filter(|vm| vm.state.is_on())?;
            Some((vm.id, inner, vm.guest.control, vm.guest.cluster.clone()))
        })?;
        match inner {
            SSH_PORT => self.node(vm).map(Target::Ssh),
            API_PORT if control => {
                let cluster = self
                    .record
                    .clusters
                    .iter()
                    .find(|have| Some(&have.name) == cluster.as_ref())?;
                Some(Target::Api(SocketAddrV4::new(cluster.kube_address, API_PORT)))
            }
            _ => None,
        }
    }
}

/// Closes with a reset, as a machine that is off does not answer kindly.
fn reset(stream: &TcpStream) {
    stream.set_zero_linger().ok();
}

/// Every place on which an Active TCP rule listens.
fn places(state: &CloudState) -> HashSet<Place> {
    let addresses: HashMap<Uuid, Ipv4Addr> = state.ips.iter().map(|ip| (ip.id, ip.address)).collect();
    let forwards = state
        .forwards
        .iter()
        .filter(|rule| rule.state == RuleState::Active && rule.protocol == "tcp")
        .flat_map(|rule| (rule.public.0..=rule.public.1).map(move |port| (rule.ip, port)));
    let balancers = state
        .balancers
        .iter()
        .filter(|rule| rule.state == RuleState::Active && rule.protocol == "tcp" && !rule.vms.is_empty())
        .map(|rule| (rule.ip, rule.public));
    forwards
        .chain(balancers)
        .filter_map(|(ip, port)| addresses.get(&ip).map(|address| (*address, port)))
        .collect()
}

/// The machine behind a public port, and the port on it, if the firewall lets traffic pass.
fn machine_at(state: &CloudState, address: Ipv4Addr, port: u16) -> Option<(Uuid, u16)> {
    let ip = state.ips.iter().find(|ip| ip.address == address)?.id;
    if !state.firewall.iter().any(|rule| rule.passes(ip, port)) {
        return None;
    }
    let forward = state.forwards.iter().find(|rule| {
        rule.ip == ip && rule.state == RuleState::Active && (rule.public.0..=rule.public.1).contains(&port)
    });
    if let Some(rule) = forward {
        return Some((rule.vm, rule.private.0 + (port - rule.public.0)));
    }
    let balancer = state
        .balancers
        .iter()
        .find(|rule| rule.ip == ip && rule.state == RuleState::Active && rule.public == port)?;
    let on = |id: &&Uuid| state.vm(**id).is_some_and(|vm| vm.state.is_on());
    balancer.vms.iter().find(on).map(|vm| (*vm, balancer.private))
}
