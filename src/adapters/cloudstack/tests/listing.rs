//! Lists over pages, accounts and projects.

use serde_json::json;

use super::{Seen, cloud, id};
use crate::domain::id::VmId;
use crate::ports::cloud::MachineQuery;

fn machine(n: u128) -> serde_json::Value {
    json!({"id": uuid::Uuid::from_u128(n), "name": format!("vm-{n}"), "state": "Running"})
}

fn answer(all: &[serde_json::Value], seen: &Seen) -> (u16, String) {
    let page: usize = seen.get("page").parse().unwrap();
    let size: usize = seen.get("pagesize").parse().unwrap();
    let items: Vec<_> = all.iter().skip((page - 1) * size).take(size).cloned().collect();
    let inner = match (all.is_empty(), items.is_empty()) {
        (true, _) => json!({}),
        (_, true) => json!({"count": all.len()}),
        _ => json!({"count": all.len(), "virtualmachine": items}),
    };
    (200, json!({"listvirtualmachinesresponse": inner}).to_string())
}

#[tokio::test]
async fn all_pages_of_accounts_and_projects_are_merged() {
    let (cloud, world) = cloud(|seen| {
        assert_eq!(seen.get("listall"), "true");
        let accounts: Vec<_> = (1..=1203).map(machine).collect();
        // Some servers show everything again.
        let projects: Vec<_> = (1200..=1210).map(machine).collect();
        answer(
            if seen.has("projectid") {
                &projects
            } else {
                &accounts
            },
            seen,
        )
    })
    .await;
    let machines = cloud.machines(&MachineQuery::default()).await.unwrap();
    assert_eq!(machines.len(), 1210);
    let ids: std::collections::HashSet<_> = machines.iter().map(|m| m.id).collect();
    assert_eq!(ids.len(), 1210);
    let seen = world.seen();
    assert_eq!(seen.iter().filter(|s| s.has("projectid")).count(), 1);
    assert!(
        seen.iter()
            .filter(|s| s.has("projectid"))
            .all(|s| s.get("projectid") == "-1")
    );
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn a_list_that_shrinks_between_pages_ends() {
    let (cloud, _) = cloud(|seen| {
        let all: Vec<_> = (1..=500).map(machine).collect();
        let (status, text) = answer(&all, seen);
        (status, text.replace("\"count\":500", "\"count\":900"))
    })
    .await;
    assert_eq!(cloud.machines(&MachineQuery::default()).await.unwrap().len(), 500);
}

#[tokio::test]
async fn a_server_with_smaller_pages_is_obeyed() {
    let (cloud, world) = cloud(|seen| {
        if seen.get("pagesize") != "20" {
            return (431, r#"{"listvirtualmachinesresponse":{"uuidList":[],"errorcode":431,"cserrorcode":9999,"errortext":"Page size can't exceed max allowed page size value: 20"}}"#.into());
        }
        let all: Vec<_> = (1..=45).map(machine).collect();
        answer(if seen.has("projectid") { &[] } else { &all }, seen)
    })
    .await;
    assert_eq!(cloud.machines(&MachineQuery::default()).await.unwrap().len(), 45);
    let refused = world.seen().iter().filter(|s| s.get("pagesize") == "500").count();
    assert_eq!(refused, 1, "it is remembered");
}

#[tokio::test]
async fn unknown_ids_are_left_out() {
    let (cloud, world) = cloud(|seen| {
        let ids: Vec<u128> = seen.params.list("ids").iter().map(|id| uuid::Uuid::parse_str(id).unwrap().as_u128()).collect();
        if let Some(unknown) = ids.iter().find(|n| *n % 50 == 0) {
            let text = format!("Invalid parameter ids value={unknown} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.");
            return (431, json!({"listvirtualmachinesresponse": {"uuidList": [], "errorcode": 431, "errortext": text}}).to_string());
        }
        // Odd ones belong to a project.
        let shown: Vec<_> = ids.iter().filter(|n| seen.has("projectid") || *n % 2 == 0).map(|n| machine(*n)).collect();
        answer(&shown, seen)
    })
    .await;
    let ids: Vec<VmId> = (1..=200).map(id::<VmId>).collect();
    let machines = cloud
        .machines(&MachineQuery {
            ids,
            ..MachineQuery::default()
        })
        .await
        .unwrap();
    assert_eq!(machines.len(), 196);
    assert!(world.seen().iter().all(|s| s.params.list("ids").len() <= 80));
    let none = cloud
        .machines(&MachineQuery {
            ids: vec![id::<VmId>(50)],
            ..MachineQuery::default()
        })
        .await
        .unwrap();
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_name_must_be_the_whole_name() {
    let (cloud, world) = cloud(|seen| answer(&[machine(1), machine(11)], seen)).await;
    let query = MachineQuery {
        name: Some("vm-1".into()),
        network_id: Some(id(3)),
        ..MachineQuery::default()
    };
    let machines = cloud.machines(&query).await.unwrap();
    assert_eq!(machines.len(), 1);
    assert_eq!(world.seen()[0].get("name"), "vm-1");
    assert!(world.seen()[0].has("networkid"));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_not_left_out_in_silence() {
    let (cloud, _) = cloud(|_| {
        (
            200,
            r#"{"listvirtualmachinesresponse":{"count":1,"virtualmachine":[{"name":"no id"}]}}"#.into(),
        )
    })
    .await;
    assert!(cloud.machines(&MachineQuery::default()).await.is_err());
}
