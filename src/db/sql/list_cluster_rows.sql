-- All that a reply needs of clusters, by key: one row each, nothing asked of the cloud.
select
  k.id as key, k.uuid, k.name, k.description, k.zone_id, k.state, k.state_reason, k.control_node_count,
  k.node_count, k.etcd_node_count, k.key_pair, k.cores, k.memory, k.endpoint, k.autoscaling_enabled, k.minsize,
  k.maxsize, k.cluster_type, k.cni_config_id, k.csi_enabled, k.network_id, k.template_id, k.service_offering_id,
  k.control_node_service_offering_id, k.worker_node_service_offering_id, k.etcd_node_service_offering_id,
  k.created as "created: Ts",
  zone.name as "zone_name?",
  template.id as "template?", template.name as "template_name?",
  plain.name as "offering_name?", control.name as "control_offering_name?", worker.name as "worker_offering_name?",
  etcd.name as "etcd_offering_name?",
  network.name as "network_name?", network.data ->> 'kind' as network_kind,
  (network.data ->> 'routed')::boolean as network_routed,
  v.uuid as "version_id?", v.name as "version_name?",
  a.account_name, a.is_project,
  p.uuid as "project_id?", p.name as "project_name?",
  d.uuid as domain_id, d.name as domain_name, d.path as domain_path,
  job.id as "job_id?",
  ip.ip_id as "ip_id?", ip.address as "ip_address?", ip.addresses as "ip_addresses?"
from kubernetes_cluster k
join account a on a.id = k.account_id
join domain d on d.id = k.domain_id
left join project p on p.project_account_id = k.account_id
left join kubernetes_supported_version v on v.id = k.kubernetes_version_id
left join cloud_object zone on zone.kind = 'zone' and zone.id = k.zone_id
left join cloud_object template on template.kind = 'template' and template.id = k.template_id
left join cloud_object plain on plain.kind = 'offering' and plain.id = k.service_offering_id
left join cloud_object control on control.kind = 'offering' and control.id = k.control_node_service_offering_id
left join cloud_object worker on worker.kind = 'offering' and worker.id = k.worker_node_service_offering_id
left join cloud_object etcd on etcd.kind = 'offering' and etcd.id = k.etcd_node_service_offering_id
left join cloud_object network on network.kind = 'network' and network.id = k.network_id
left join lateral (
  select j.id from async_job j where j.cluster_id = k.id and j.phase <> 'done' order by j.seq desc limit 1
) job on true
left join lateral (
  select min(r.public_ip_id::text)::uuid as ip_id, min(r.address) as address, count(distinct r.public_ip_id) as addresses
  from cluster_rule r where r.cluster_id = k.id
) ip on true
where k.id = any($1)
order by k.id
