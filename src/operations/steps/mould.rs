//! What new workers are made of, and their names and ports.
//!
//! What this must not know: how they are made.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::plan::{Seen, away};
use crate::domain::cluster::Role;
use crate::domain::id::OfferingId;
use crate::domain::observed::FirewallRule;
use crate::domain::plan::admission::{ScaleRequest, present_offering};
use crate::domain::plan::resolve::Reach;
use crate::domain::plan::scale::{Addition, Mould};
use crate::domain::plan::{naming, offering, rules};
use crate::jobs::{OpCx, StepResult, fail};

/// Names, slots and ports of the workers that come, and what they are made of.
pub async fn additions(
    cx: &OpCx,
    request: &ScaleRequest,
    seen: &Seen,
    more: i64,
    since: Timestamp,
) -> StepResult<(Vec<Addition>, Option<Mould>)> {
    let more = usize::try_from(more).unwrap_or(0);
    if more == 0 || request.node_ids.is_some() {
        return Ok((Vec::new(), None));
    }
    let mould = mould(cx, request, seen, since).await?;
    let firewalls = match seen.ip_id {
        Some(ip) => cx
            .ports()
            .cloud
            .firewall_rules(ip)
            .await
            .map_err(|error| away(cx, since, error))?,
        None => Vec::new(),
    };
    let prefix = naming::prefix(&seen.cluster.name, seen.cluster.id.0);
    let names = naming::workers(&prefix, cx.now(), more);
    let mut given = BTreeSet::new();
    let mut additions = Vec::with_capacity(more);
    for name in names {
        let (public_port, firewall) = port(seen, &firewalls, &given)?;
        given.extend(public_port);
        let slot = cx.ports().ids.random();
        additions.push(Addition {
            name,
            slot,
            public_port,
            firewall,
        });
    }
    Ok((additions, Some(mould)))
}

fn port(seen: &Seen, firewalls: &[FirewallRule], given: &BTreeSet<u16>) -> StepResult<(Option<u16>, bool)> {
    let Reach::Forwarded { address } = seen.reach else {
        return Ok((None, false));
    };
    let port = rules::free_port(address, &seen.forwards, given).map_err(|error| fail(error.to_string()))?;
    Ok((Some(port), !rules::is_open(firewalls, port)))
}

/// What new workers are made of: what the cluster records, in the account or project of its machines.
async fn mould(cx: &OpCx, request: &ScaleRequest, seen: &Seen, since: Timestamp) -> StepResult<Mould> {
    let cluster = &seen.cluster;
    let missing = |what: &str| fail(format!("the cluster has no {what} on record: import it again"));
    let offering_id = request
        .wanted_offering(Role::Worker)
        .or_else(|| present_offering(cluster, Role::Worker))
        .ok_or_else(|| missing("service offering for workers"))?;
    let template_id = cluster
        .worker_template_id
        .or(cluster.template_id)
        .ok_or_else(|| missing("template for workers"))?;
    let network_id = cluster.network_id.ok_or_else(|| missing("network"))?;
    let template = cx
        .ports()
        .cloud
        .template(template_id)
        .await
        .map_err(|error| away(cx, since, error))?;
    if !template.is_some_and(|template| template.ready) {
        return Err(fail(format!(
            "template {template_id} for new workers is not ready in the zone"
        )));
    }
    let owner = seen.machines.first();
    let iso_id = match cluster.version_id {
        Some(version) => cx.db().version(version).await?.map(|version| version.iso_id),
        None => None,
    };
    let identity = cx
        .db()
        .ssh_identity()
        .await?
        .ok_or_else(|| missing("SSH user and key"))?;
    Ok(Mould {
        zone_id: cluster.zone_id,
        offering_id,
        template_id,
        network_id,
        key_pair: cluster.key_pair.clone(),
        account: owner.and_then(|one| Some((one.account.clone()?, one.domain_id?))),
        project_id: owner.and_then(|one| one.project_id),
        iso_id,
        login_user: identity.user,
        version: cluster.semantic_version.clone(),
    })
}

/// The sizes of the offerings that the plan names.
pub async fn sizes(
    cx: &OpCx,
    offering: &offering::OfferingPlan,
    mould: Option<&Mould>,
    since: Timestamp,
) -> StepResult<BTreeMap<OfferingId, (i64, i64)>> {
    let mut wanted: BTreeSet<OfferingId> = offering.resize.iter().map(|one| one.offering).collect();
    wanted.extend(mould.map(|mould| mould.offering_id));
    let mut sizes = BTreeMap::new();
    for id in wanted {
        let found = cx
            .ports()
            .cloud
            .offering(id)
            .await
            .map_err(|error| away(cx, since, error))?;
        let Some(found) = found else {
            return Err(fail(format!("the cloud has no service offering {id}")));
        };
        sizes.insert(id, (found.cpu_number.unwrap_or(0), found.memory_mb.unwrap_or(0)));
    }
    Ok(sizes)
}
