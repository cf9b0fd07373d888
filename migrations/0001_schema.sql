-- The first schema. Names are CloudStack's where CloudStack has them (cks-facts.md 6). Keys inside are bigint,
-- ids outside are uuid. What lives in the cloud is a uuid without a foreign key.

-- ---------------------------------------------------------------- who we are
create table installation (
  only_one      boolean primary key default true check (only_one),
  id            uuid not null,
  created       timestamptz not null default now()
);

-- ---------------------------------------------------------------- accounts
create table domain (
  id            bigint generated always as identity primary key,
  uuid          uuid not null unique,
  parent_id     bigint references domain (id),
  name          text not null,
  path          text not null unique          -- '/', '/a/b/': starts and ends with a slash
);

create table account (
  id            bigint generated always as identity primary key,
  uuid          uuid not null unique,
  domain_id     bigint not null references domain (id),
  account_name  text not null,
  role          text not null check (role in ('Admin', 'DomainAdmin', 'User')),
  is_project    boolean not null default false, -- a project's own account
  state         text not null default 'enabled' check (state in ('enabled', 'disabled')),
  created       timestamptz not null default now(),
  removed       timestamptz,
  unique (domain_id, account_name)
);

create table "user" (
  id            bigint generated always as identity primary key,
  uuid          uuid not null unique,
  account_id    bigint not null references account (id),
  username      text not null,
  password_hash text,
  api_key       text unique,
  secret_key    bytea,                         -- sealed: nonce and ciphertext
  state         text not null default 'enabled' check (state in ('enabled', 'disabled')),
  created       timestamptz not null default now(),
  removed       timestamptz
);
create unique index user_name_of_account on "user" (account_id, username) where removed is null;

create table project (
  id                 bigint generated always as identity primary key,
  uuid               uuid not null unique,
  name               text not null,
  domain_id          bigint not null references domain (id),
  project_account_id bigint not null unique references account (id),
  created            timestamptz not null default now(),
  removed            timestamptz
);

create table project_account (
  project_id    bigint not null references project (id),
  account_id    bigint not null references account (id),
  primary key (project_id, account_id)
);

-- ---------------------------------------------------------------- what the cloud told us
create table cloud_object (
  kind          text not null,                 -- zone, offering, template, network, iso, vm, publicip
  id            uuid not null,
  name          text not null,
  data          jsonb not null,                -- the object as the port gives it; vm: as the cloud sent it
  seen_at       timestamptz not null,
  primary key (kind, id)
);

-- ---------------------------------------------------------------- versions
create table kubernetes_supported_version (
  id               bigint generated always as identity primary key,
  uuid             uuid not null unique,
  name             text not null,
  semantic_version text not null,
  iso_id           uuid not null,
  zone_id          uuid,
  state            text not null check (state in ('Enabled', 'Disabled')),
  arch             text not null default 'x86_64',
  min_cpu          integer not null check (min_cpu >= 1),
  min_ram_size     bigint not null check (min_ram_size >= 1), -- MB
  directdownload   boolean not null default false,
  created          timestamptz not null default now(),
  removed          timestamptz
);

-- ---------------------------------------------------------------- clusters
create table kubernetes_cluster (
  id                               bigint generated always as identity primary key,
  uuid                             uuid not null unique,
  name                             text not null,
  description                      text,
  zone_id                          uuid not null,
  kubernetes_version_id            bigint references kubernetes_supported_version (id),
  service_offering_id              uuid,
  control_node_service_offering_id uuid,
  worker_node_service_offering_id  uuid,
  etcd_node_service_offering_id    uuid,
  template_id                      uuid,
  control_node_template_id         uuid,
  worker_node_template_id          uuid,
  etcd_node_template_id            uuid,
  network_id                       uuid,
  control_node_count               bigint not null default 0 check (control_node_count >= 0),
  node_count                       bigint not null default 0 check (node_count >= 0),
  etcd_node_count                  bigint not null default 0 check (etcd_node_count >= 0),
  account_id                       bigint not null references account (id),
  domain_id                        bigint not null references domain (id),
  state                            text not null check (state in (
    'Created', 'Starting', 'Running', 'Stopping', 'Stopped', 'Scaling', 'ScalingStoppedCluster', 'Upgrading',
    'Importing', 'RemovingNodes', 'Alert', 'Recovering', 'Destroying', 'Destroyed', 'Error')),
  state_reason                     text,       -- why it is in Alert, for errors and pages
  generation                       bigint not null default 1,
  key_pair                         text,
  cores                            bigint not null default 0 check (cores >= 0),
  memory                           bigint not null default 0 check (memory >= 0), -- MB
  node_root_disk_size              bigint default 0,
  endpoint                         text,
  autoscaling_enabled              boolean not null default false,
  minsize                          bigint,
  maxsize                          bigint,
  cluster_type                     text not null default 'CloudManaged' check (cluster_type in ('CloudManaged', 'ExternalManaged')),
  cni_config_id                    uuid,
  csi_enabled                      boolean not null default false,
  created                          timestamptz not null default now(),
  removed                          timestamptz,
  released                         timestamptz -- management ended by `cksd release`
);
create index cluster_of_account on kubernetes_cluster (account_id) where removed is null;

create table kubernetes_cluster_vm_map (
  id                      bigint generated always as identity primary key,
  cluster_id              bigint not null references kubernetes_cluster (id) on delete cascade,
  vm_id                   uuid not null,
  vm_name                 text not null,
  control_node            boolean not null default false,
  etcd_node               boolean not null default false,
  external_node           boolean not null default false,
  manual_upgrade          boolean not null default false,
  kubernetes_node_version text,                -- bare semver
  node                    jsonb,               -- domain::cluster::MatchedNode, written when first matched
  unique (cluster_id, vm_id),
  check (not (control_node and etcd_node))
);
create unique index vm_in_one_cluster on kubernetes_cluster_vm_map (vm_id);

create table kubernetes_cluster_details (
  id            bigint generated always as identity primary key,
  cluster_id    bigint not null references kubernetes_cluster (id) on delete cascade,
  name          text not null,
  value         text,
  sealed        bytea,                         -- for kubeConfigData and other secrets, instead of value
  display       boolean not null default true,
  unique (cluster_id, name),
  check ((value is null) <> (sealed is null))
);

-- How the nodes of a cluster are reached. The private key is sealed.
create table ssh_identity (
  cluster_id    bigint primary key references kubernetes_cluster (id) on delete cascade,
  login_user    text not null,
  private_key   bytea not null
);

-- Host keys that a machine must show. Recorded by import, by `hosts accept`, or made by us.
create table ssh_host_key (
  cluster_id    bigint not null references kubernetes_cluster (id) on delete cascade,
  vm_id         uuid not null,
  public_key    text not null,                 -- OpenSSH form: `ssh-ed25519 AAAA...`
  private_key   bytea,                         -- sealed; only for keys that we made, until the machine has it
  recorded      timestamptz not null default now(),
  primary key (cluster_id, vm_id, public_key)
);

-- Which rules of the cloud are ours.
create table cluster_rule (
  cloud_id      uuid primary key,
  cluster_id    bigint not null references kubernetes_cluster (id) on delete cascade,
  kind          text not null check (kind in ('forwarding', 'firewall')),
  vm_id         uuid,
  purpose       text not null check (purpose in ('ssh', 'api')),
  public_ip_id  uuid not null,
  address       text not null,                 -- the public address itself
  public_port   integer not null check (public_port between 1 and 65535),
  public_end_port integer not null check (public_end_port between 1 and 65535)
);
create index rule_of_cluster on cluster_rule (cluster_id);

create table cluster_history (
  cluster_id    bigint not null references kubernetes_cluster (id) on delete cascade,
  generation    bigint not null,
  from_state    text not null,
  event         text not null,
  to_state      text not null,
  job_id        uuid,
  reason        text,
  at            timestamptz not null default now(),
  primary key (cluster_id, generation)
);

-- ---------------------------------------------------------------- jobs
create sequence job_epoch;

create table async_job (
  id              uuid primary key,
  seq             bigint generated always as identity unique,
  command         text not null,               -- scaleKubernetesCluster, ...
  account_id      bigint not null references account (id),
  user_id         bigint not null references "user" (id),
  instance_type   text,                        -- KubernetesCluster, KubernetesSupportedVersion
  instance_id     uuid,
  cluster_id      bigint references kubernetes_cluster (id),
  lock_key        text,                        -- cluster:<uuid>; null for a job that needs no cluster
  request         jsonb not null,
  request_id      text,                        -- the HTTP request id that asked for it
  from_state      text,                        -- where given-back returns to
  plan            jsonb,
  progress        jsonb,                       -- what clients see as `operation`
  phase           text not null check (phase in ('queued', 'running', 'done')),
  status          smallint not null default 0 check (status in (0, 1, 2)),
  owner           uuid,
  epoch           bigint,
  lease_until     timestamptz,
  run_after       timestamptz not null default now(),
  waiting_for     jsonb,                       -- {reason, at (file:line), since}
  failures        integer not null default 0,  -- Retry outcomes since the last new step
  takeovers       integer not null default 0,  -- claims after a lost lease since the last new step
  deadline        timestamptz,
  cancel_requested boolean not null default false,
  idempotency_key text,
  scheduled_event uuid,                        -- the Scheduled event, parent of the others
  result_code     integer,
  result          jsonb,
  created         timestamptz not null default now(),
  updated         timestamptz not null default now(),
  completed       timestamptz,
  check ((phase = 'running') = (owner is not null and lease_until is not null)),
  check ((phase = 'done') = (status <> 0)),
  check ((phase = 'done') = (completed is not null)),
  unique (account_id, idempotency_key)
);
-- A second operation on a cluster cannot be admitted, not even queued.
create unique index one_open_job_per_key on async_job (lock_key) where phase <> 'done';
create index job_due on async_job (run_after, seq) where phase = 'queued';
create index job_abandoned on async_job (lease_until) where phase = 'running';
create index job_of_account on async_job (account_id, seq);
create index job_of_cluster on async_job (cluster_id, seq);

create table job_step (
  job_id        uuid not null references async_job (id) on delete cascade,
  seq           bigint generated always as identity,
  name          text not null,
  subject       text not null default '',
  attempt       integer not null default 1,
  state         text not null check (state in ('begun', 'done', 'failed')),
  output        jsonb,
  epoch         bigint not null,
  started       timestamptz not null default now(),
  ended         timestamptz,
  primary key (job_id, name, subject),
  check ((state = 'begun') = (ended is null))
);

-- What we did to the outside and must give back or hand over. A row stands before the effect and goes after
-- the effect is undone.
create table ledger (
  id            uuid primary key,
  cluster_id    bigint not null references kubernetes_cluster (id) on delete cascade,
  job_id        uuid references async_job (id),
  kind          text not null check (kind in ('cordon', 'iso', 'rule', 'vm', 'host', 'script', 'removal', 'expunge')),
  subject       text not null,                 -- node name, machine id, rule id: by kind
  detail        jsonb not null default '{}',
  created       timestamptz not null default now(),
  last_error    text,
  next_try      timestamptz,                   -- set when it has become a leftover
  tries         integer not null default 0,
  unique (cluster_id, kind, subject)
);
create index leftover_due on ledger (next_try) where next_try is not null;

-- ---------------------------------------------------------------- events and settings
create table event (
  id            uuid primary key,
  seq           bigint generated always as identity unique,
  type          text not null,                 -- KUBERNETES.CLUSTER.SCALE, ...
  level         text not null check (level in ('INFO', 'WARN', 'ERROR')),
  state         text not null check (state in ('Created', 'Scheduled', 'Started', 'Completed')),
  description   text not null,
  account_id    bigint not null references account (id),
  user_id       bigint references "user" (id),
  domain_id     bigint not null references domain (id),
  resource_type text,
  resource_id   uuid,
  resource_name text,
  parent_id     uuid,
  job_id        uuid,
  archived      boolean not null default false,
  created       timestamptz not null default now()
);
create index event_of_account on event (account_id, seq);
create index event_of_resource on event (resource_id, seq);

create table configuration (
  name          text primary key,
  value         text not null,
  updated       timestamptz not null default now()
);

-- ---------------------------------------------------------------- waking workers
-- A hint, never a queue: a poll stands behind it. Empty payload, so that repeats in one transaction merge.
create function notify_jobs() returns trigger language plpgsql as $$
begin
  if new.phase in ('queued', 'done') then
    perform pg_notify('cksd_jobs', '');
  end if;
  return null;
end $$;

create trigger async_job_notify after insert or update of phase, run_after, cancel_requested on async_job
  for each row execute function notify_jobs();
