//! Where a member's SSH answers.

use std::net::IpAddr;

use super::{Endpoint, FIRST_SSH_PORT, Facts, Reach, SSH_PORT, addresses};
use crate::domain::cluster::Member;
use crate::domain::id::VmId;
use crate::domain::observed::{ForwardingRule, Machine};

pub(super) fn endpoint(
    member: &Member,
    machine: Option<&Machine>,
    index: usize,
    facts: Facts<'_>,
) -> Option<Endpoint> {
    match facts.reach {
        Reach::Direct { port } => machine
            .and_then(|machine| addresses(machine).first().copied())
            .map(|address| Endpoint {
                address,
                port,
                guess: false,
            }),
        Reach::Forwarded { address } => {
            if let Some(port) = forwarded_port(facts.rules, address, member.vm_id) {
                return Some(Endpoint {
                    address,
                    port,
                    guess: false,
                });
            }
            let port = u16::try_from(index)
                .ok()
                .and_then(|index| FIRST_SSH_PORT.checked_add(index))?;
            let taken = facts.rules.iter().any(|rule| {
                live(rule) && rule.address == address && covers(rule, port) && rule.vm_id.is_some()
            });
            (!taken).then_some(Endpoint {
                address,
                port,
                guess: true,
            })
        }
    }
}

/// The public port on which this machine's SSH stands: the lowest, when there are several.
#[must_use]
pub fn forwarded_port(rules: &[ForwardingRule], address: IpAddr, vm_id: VmId) -> Option<u16> {
    rules
        .iter()
        .filter(|rule| live(rule) && rule.address == address && rule.vm_id == Some(vm_id))
        .filter_map(|rule| {
            let offset = SSH_PORT.checked_sub(rule.private_port)?;
            let port = rule.public_port.checked_add(offset)?;
            (port <= rule.public_end_port).then_some(port)
        })
        .min()
}

/// A TCP rule that is not being removed.
fn live(rule: &ForwardingRule) -> bool {
    !rule.revoked && rule.protocol.eq_ignore_ascii_case("tcp")
}

fn covers(rule: &ForwardingRule, port: u16) -> bool {
    (rule.public_port..=rule.public_end_port).contains(&port)
}
