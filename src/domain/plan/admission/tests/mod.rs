//! Tests of admission: each refusal with its literal text.
//!
//! What this must not know: how facts are gathered.

mod offerings;

use uuid::Uuid;

use super::*;
use crate::domain::id::{AccountId, ClusterId, DomainId, ZoneId};

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

fn vm(n: u128) -> VmId {
    VmId(id(n))
}

const LABEL: &str = "cluster web (00000000-0000-0000-0000-0000000000c1)";

fn cluster() -> Cluster {
    Cluster {
        key: 1,
        id: ClusterId(id(0xc1)),
        name: "web".into(),
        description: None,
        zone_id: ZoneId(id(0x20)),
        version_id: None,
        semantic_version: Some("1.32.5".into()),
        service_offering_id: Some(OfferingId(id(0x51))),
        control_offering_id: None,
        worker_offering_id: None,
        etcd_offering_id: None,
        template_id: Some(TemplateId(id(0x7e))),
        worker_template_id: None,
        network_id: None,
        control_count: 3,
        node_count: 3,
        etcd_count: 0,
        account_id: AccountId(id(0xa)),
        domain_id: DomainId(id(0xd)),
        project_id: None,
        state: State::Running,
        generation: 1,
        key_pair: None,
        cores: 12,
        memory_mb: 24576,
        endpoint: None,
        cluster_type: ClusterType::CloudManaged,
        autoscaling_enabled: false,
        min_size: None,
        max_size: None,
        created: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn member(n: u128, role: Role) -> Member {
    Member {
        key: i64::try_from(n).unwrap(),
        vm_id: vm(n),
        vm_name: format!("vm-{n}"),
        role,
        external: false,
        manual_upgrade: false,
        node_version: None,
        node: None,
        host_keys: vec![],
    }
}

fn offering(n: u128, name: &str, cpu: i64, memory_mb: i64) -> OfferingFacts {
    OfferingFacts {
        id: OfferingId(id(n)),
        name: name.into(),
        cpu_number: Some(cpu),
        cpu_speed: Some(1000),
        memory_mb: Some(memory_mb),
        customized: false,
    }
}

struct World {
    cluster: Cluster,
    members: Vec<Member>,
    gone: BTreeSet<VmId>,
    job: Option<OpenJob>,
    upgrade: Option<String>,
    version: Option<VersionNeeds>,
    offerings: BTreeMap<OfferingId, OfferingFacts>,
    template: Option<TemplateFacts>,
}

fn world() -> World {
    let custom = OfferingFacts {
        customized: true,
        cpu_number: None,
        memory_mb: None,
        ..offering(0x54, "any", 0, 0)
    };
    let offerings = [
        offering(0x51, "medium", 2, 4096),
        offering(0x52, "large", 4, 8192),
        offering(0x53, "tiny", 1, 8192),
        custom,
        offering(0x55, "lean", 4, 2048),
        OfferingFacts {
            cpu_speed: Some(500),
            ..offering(0x56, "slow", 3, 8192)
        },
    ];
    World {
        cluster: cluster(),
        members: vec![
            member(1, Role::Control),
            member(2, Role::Control),
            member(3, Role::Control),
            member(4, Role::Worker),
            member(5, Role::Worker),
            member(6, Role::Worker),
        ],
        gone: BTreeSet::from([vm(9)]),
        job: None,
        upgrade: None,
        version: Some(VersionNeeds {
            min_cpu: 2,
            min_memory_mb: 2048,
        }),
        offerings: offerings.into_iter().map(|facts| (facts.id, facts)).collect(),
        template: Some(TemplateFacts {
            name: "node".into(),
            ready: true,
        }),
    }
}

impl World {
    fn decide(&self, request: &ScaleRequest) -> Result<Admitted, ScaleRefusal> {
        decide(
            request,
            &ScaleFacts {
                cluster: &self.cluster,
                members: &self.members,
                gone: &self.gone,
                open_job: self.job.as_ref(),
                unfinished_upgrade: self.upgrade.as_deref(),
                version: self.version,
                max_size: 10,
                offerings: &self.offerings,
                template: self.template.as_ref(),
            },
        )
    }

    #[track_caller]
    fn refuses(&self, request: &ScaleRequest, text: &str) {
        assert_eq!(self.decide(request).unwrap_err().to_string(), text);
    }
}

fn size(size: i64) -> ScaleRequest {
    ScaleRequest {
        size: Some(size),
        ..ScaleRequest::default()
    }
}

fn nodes(list: &[u128]) -> ScaleRequest {
    ScaleRequest {
        node_ids: Some(list.iter().copied().map(vm).collect()),
        ..ScaleRequest::default()
    }
}

fn to_offering(n: u128) -> ScaleRequest {
    ScaleRequest {
        offering: Some(OfferingId(id(n))),
        ..ScaleRequest::default()
    }
}

#[test]
fn what_the_request_alone_tells() {
    let text = |request: ScaleRequest| request.check().unwrap_err().to_string();
    assert_eq!(
        text(ScaleRequest::default()),
        "nothing to change: give size, nodeids, serviceofferingid or nodeofferings"
    );
    assert_eq!(text(size(0)), "size must be at least 1, not 0");
    assert_eq!(text(size(-2)), "size must be at least 1, not -2");
    assert_eq!(
        text(ScaleRequest {
            size: Some(2),
            ..nodes(&[4])
        }),
        "size and nodeids cannot be given together: nodeids names the nodes to remove, size leaves the choice to the service"
    );
    assert_eq!(
        text(nodes(&[])),
        "nodeids is empty: name the virtual machines of the nodes to remove, or leave it out"
    );
    for good in [size(1), nodes(&[4]), to_offering(1)] {
        assert_eq!(good.check(), Ok(()));
    }
}

#[test]
fn sizes_choose_the_event() {
    let world = world();
    let event = |wanted| world.decide(&size(wanted)).map(|admitted| admitted.event);
    assert_eq!(event(2), Ok(Event::ScaleDownRequested));
    assert_eq!(event(3), Ok(Event::ScaleDownRequested));
    assert_eq!(event(4), Ok(Event::ScaleUpRequested));
    assert_eq!(event(7), Ok(Event::ScaleUpRequested));
    world.refuses(
        &size(8),
        &format!(
            "{LABEL} cannot have 8 workers: with its 3 control nodes that is more than the 10 nodes that cloud.kubernetes.cluster.max.size allows"
        ),
    );
}

#[test]
fn a_cluster_above_the_limit_can_still_shrink() {
    let mut world = world();
    world.cluster.node_count = 12;
    assert!(world.decide(&size(11)).is_ok());
}

#[test]
fn states_and_jobs_in_the_way() {
    let mut world = world();
    for state in [State::Running, State::Alert] {
        world.cluster.state = state;
        assert!(world.decide(&size(2)).is_ok());
    }
    world.cluster.state = State::Upgrading;
    world.refuses(
        &size(2),
        &format!("{LABEL} is Upgrading: scaling needs a cluster that is Running, Stopped or in Alert"),
    );
    world.job = Some(OpenJob {
        id: JobId(id(0x70b)),
        command: "upgradeKubernetesCluster".into(),
    });
    world.refuses(
        &size(2),
        &format!(
            "{LABEL} is Upgrading: job 00000000-0000-0000-0000-00000000070b (upgradeKubernetesCluster) is in the way, wait for it to end"
        ),
    );
}

#[test]
fn a_stopped_cluster_changes_its_offering_only() {
    let mut world = world();
    world.cluster.state = State::Stopped;
    let text = format!("{LABEL} is Stopped: only its offering can change now, start it to change its size");
    world.refuses(&size(2), &text);
    world.refuses(&size(3), &text);
    world.refuses(&nodes(&[4]), &text);
    let both = ScaleRequest {
        size: Some(3),
        ..to_offering(0x52)
    };
    let admitted = world.decide(&both).unwrap();
    assert_eq!(admitted.event, Event::ScaleUpRequested);
    assert_eq!(admitted.request.size, None);
    // smaller than the present one: allowed while stopped
    assert!(world.decide(&to_offering(0x55)).is_ok());
}

#[test]
fn external_clusters_and_those_without_a_version() {
    let mut world = world();
    world.version = None;
    world.refuses(
        &size(2),
        &format!("{LABEL} has no Kubernetes version, so what its nodes need is not known"),
    );
    world.cluster.cluster_type = ClusterType::ExternalManaged;
    world.refuses(
        &size(2),
        &format!("{LABEL} is ExternalManaged: only clusters that this service runs can be scaled"),
    );
}

#[test]
fn nodes_are_judged_as_a_set() {
    let world = world();
    let admitted = world.decide(&nodes(&[5, 4, 5, 9])).unwrap();
    assert_eq!(admitted.request.node_ids, Some(vec![vm(5), vm(4)]));
    assert_eq!(admitted.event, Event::ScaleDownRequested);
    assert_eq!(
        world.decide(&nodes(&[9])).unwrap().request.node_ids,
        Some(vec![]),
        "a repeated request succeeds"
    );
    world.refuses(
        &nodes(&[4, 7]),
        &format!("virtual machine 00000000-0000-0000-0000-000000000007 is no node of {LABEL}"),
    );
    let control = |names: &str| {
        format!(
            "{names} of {LABEL} cannot be removed: etcd membership is not managed, so only workers can be named"
        )
    };
    world.refuses(&nodes(&[1, 2, 3]), &control("vm-1, vm-2, vm-3"));
    world.refuses(&nodes(&[2, 4]), &control("vm-2"));
    world.refuses(
        &nodes(&[4, 5, 6]),
        &format!("nodeids names all workers of {LABEL}: one must be left"),
    );
    let with_offering = ScaleRequest {
        offering: Some(OfferingId(id(0x52))),
        ..nodes(&[4])
    };
    world.refuses(
        &with_offering,
        "nodeids cannot be given together with an offering for workers: remove the nodes first, then change the offering",
    );
}

#[test]
fn growing_needs_a_finished_upgrade_and_a_ready_template() {
    let mut world = world();
    world.upgrade = Some("1.33.1".into());
    world.refuses(
        &size(4),
        &format!(
            "{LABEL} has an unfinished upgrade to 1.33.1: finish the upgrade first, nodes can be added after that"
        ),
    );
    assert!(world.decide(&size(2)).is_ok(), "shrinking is allowed");
    world.upgrade = None;
    world.template = Some(TemplateFacts {
        name: "node".into(),
        ready: false,
    });
    world.refuses(
        &size(4),
        &format!("{LABEL} cannot grow: template node is not ready in its zone"),
    );
    world.template = None;
    world.refuses(
        &size(4),
        &format!("{LABEL} cannot grow: it has no template that the cloud knows"),
    );
}

#[test]
fn the_cloud_is_asked_only_for_what_counts() {
    let mut cluster = cluster();
    assert!(size(2).offerings_needed(&cluster).is_empty());
    assert_eq!(size(2).template_needed(&cluster), None);
    assert_eq!(size(4).template_needed(&cluster), Some(TemplateId(id(0x7e))));
    cluster.worker_offering_id = Some(OfferingId(id(0x57)));
    assert_eq!(
        to_offering(0x52).offerings_needed(&cluster),
        [0x51, 0x52, 0x57].map(|n| OfferingId(id(n))).into()
    );
}

#[test]
fn a_request_is_stored_without_what_it_does_not_ask() {
    assert_eq!(serde_json::to_string(&size(2)).unwrap(), r#"{"size":2}"#);
    let roles = ScaleRequest {
        role_offerings: BTreeMap::from([(Role::Worker, OfferingId(id(1)))]),
        ..ScaleRequest::default()
    };
    let text = serde_json::to_string(&roles).unwrap();
    assert_eq!(
        text,
        r#"{"role_offerings":{"worker":"00000000-0000-0000-0000-000000000001"}}"#
    );
    assert_eq!(serde_json::from_str::<ScaleRequest>(&text).unwrap(), roles);
}
