//! The rows with which a trial begins.

use secrecy::SecretSlice;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::world::{self, ADDRESS, World, fixed};
use crate::db::members::NewMember;
use crate::db::rules::{ClusterRule, RuleKind, RulePurpose};
use crate::db::secrets::Cipher;
use crate::db::ssh::SshIdentity;
use crate::db::{accounts, members, rules, ssh};
use crate::domain::account::AccountRole;
use crate::domain::cluster::{Role, State};

pub(super) fn cipher() -> Cipher {
    Cipher::new(&SecretSlice::from(vec![7; 32])).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test empties tables")]
pub(super) async fn seed(conn: &mut PgConnection, world: &World, state: State) -> (i64, i64, i64) {
    sqlx::query(
        "truncate kubernetes_cluster, async_job, event, configuration, cloud_object, domain, \
         kubernetes_supported_version restart identity cascade",
    )
    .execute(&mut *conn)
    .await
    .unwrap();
    let domain = accounts::insert_domain(&mut *conn, fixed(0xd).into(), "ROOT", None)
        .await
        .unwrap();
    let account = accounts::insert_account(
        &mut *conn,
        fixed(0xac).into(),
        &domain,
        "admin",
        AccountRole::Admin,
    )
    .await
    .unwrap();
    let user_key = accounts::insert_user(&mut *conn, fixed(0xad).into(), account.key, "admin")
        .await
        .unwrap();
    let machines: Vec<_> = world.state().machines.values().cloned().collect();
    let (mut cores, mut memory) = (0, 0);
    for machine in &machines {
        cores += machine.cpu_number;
        memory += machine.memory_mb;
    }
    let workers = i64::try_from(machines.len()).unwrap() - 1;
    let key: i64 = sqlx::query(
        "with v as (
           insert into kubernetes_supported_version (uuid, name, semantic_version, iso_id, state, min_cpu, min_ram_size)
           values ($1, 'v1.32.5', '1.32.5', $2, 'Enabled', 2, 2048) returning id)
         insert into kubernetes_cluster (uuid, name, zone_id, kubernetes_version_id, service_offering_id, template_id,
           network_id, control_node_count, node_count, account_id, domain_id, state, cores, memory)
         select $3, 'blue', $4, v.id, $5, $6, $7, 1, $8, $9, $10, $11, $12, $13 from v returning id",
    )
    .bind(fixed(0x9e))
    .bind(Uuid::from(world::iso_id()))
    .bind(fixed(0xc1))
    .bind(Uuid::from(world::zone_id()))
    .bind(Uuid::from(world::offering_id()))
    .bind(Uuid::from(world::template_id()))
    .bind(Uuid::from(world::network_id()))
    .bind(workers)
    .bind(account.key)
    .bind(domain.key)
    .bind(state.name())
    .bind(cores)
    .bind(memory)
    .fetch_one(&mut *conn)
    .await
    .unwrap()
    .get(0);
    outside(conn, world, key).await;
    (account.key, user_key, key)
}

/// Members, host keys, rules and login.
async fn outside(conn: &mut PgConnection, world: &World, key: i64) {
    let machines: Vec<_> = world.state().machines.values().cloned().collect();
    for machine in &machines {
        let new = NewMember {
            vm_id: machine.id,
            vm_name: machine.name.clone(),
            role: if machine.name.starts_with("cp") {
                Role::Control
            } else {
                Role::Worker
            },
            external: false,
            manual_upgrade: false,
            node_version: Some("1.32.5".into()),
        };
        members::insert(&mut *conn, key, &new).await.unwrap();
        ssh::put_host_key(&mut *conn, &cipher(), key, machine.id, "ssh-ed25519 AAAA", None)
            .await
            .unwrap();
    }
    let forwards = world.state().forwards.clone();
    for rule in forwards {
        let row = ClusterRule {
            cloud_id: rule.id,
            kind: RuleKind::Forwarding,
            vm_id: rule.vm_id,
            purpose: RulePurpose::Ssh,
            public_ip_id: rule.ip_id,
            address: ADDRESS,
            public_port: rule.public_port,
            public_end_port: rule.public_end_port,
        };
        rules::put(&mut *conn, key, &row).await.unwrap();
    }
    let identity = SshIdentity {
        user: "cloud".into(),
        private_key: "PRIVATE-LOGIN-KEY".into(),
    };
    ssh::set_identity(&mut *conn, &cipher(), key, &identity)
        .await
        .unwrap();
}
