//! listKubernetesClusters: from what is stored, without a call to the cloud.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::scope::{
    ACCOUNT, ById, DOMAIN_ID, IS_RECURSIVE, KEYWORD, LIST_ALL, PAGE, PAGE_SIZE, PROJECT_ID,
};
use super::super::views::cluster;
use super::super::views::machine::View;
use super::{Entry, Part};
use crate::db::lists::clusters::{self, Filter};
use crate::domain::id::ClusterId;
use crate::protocol::Fault;
use crate::protocol::command::{Command, Param, ParamType, Reply, Role};
use crate::protocol::envelope::list_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listKubernetesClusters",
        description: "Lists Kubernetes clusters",
        since: Some("4.14.0"),
        roles: Role::ALL,
        reply: Reply::List("kubernetescluster"),
        params: &[
            Param::optional("id", ParamType::Uuid, "only the cluster of this id"),
            Param::optional("name", ParamType::String, "only clusters of exactly this name"),
            Param::optional("state", ParamType::String, "only clusters in this state"),
            Param::optional(
                "clustertype",
                ParamType::String,
                "only CloudManaged or only ExternalManaged ones",
            )
            .since("4.19.0"),
            KEYWORD,
            ACCOUNT,
            DOMAIN_ID,
            PROJECT_ID,
            IS_RECURSIVE,
            LIST_ALL,
            PAGE,
            PAGE_SIZE,
        ],
        response: cluster::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Kubernetes,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let page = cx.page()?;
    let cluster_type = match cx.text("clustertype").map(str::trim) {
        None => None,
        Some(kind @ ("CloudManaged" | "ExternalManaged")) => Some(kind.to_owned()),
        Some(other) => {
            return Err(Fault::invalid(format!(
                "clustertype must be CloudManaged or ExternalManaged, not {other}"
            ))
            .into());
        }
    };
    let mut conn = cx.connection().await?;
    let id = cx.id("id")?.map(ClusterId);
    if let Some(id) = id {
        let sight = cx.sight(&mut conn).await?;
        // One that is gone is an empty list; one that never was, or that is out of sight, is an error.
        if clusters::look_up(&mut conn, &sight, id).await?.is_none() {
            return Err(cx.unknown_id("id", &id.to_string()).into());
        }
    }
    let by_id = if id.is_some() { ById::Yes } else { ById::No };
    let scope = cx.list_scope(&mut conn, by_id).await?;
    let filter = Filter {
        id,
        name: cx.text("name").map(str::to_owned),
        keyword: cx.text("keyword").map(str::to_owned),
        state: cx.text("state").map(str::to_owned),
        cluster_type,
    };
    let keys = clusters::keys(&mut conn, &scope, &filter).await?;
    let total = keys.len();
    let rows = clusters::rows(&mut conn, &page.cut(keys)).await?;
    let view = if cx.is_admin() {
        View::Full
    } else {
        View::Restricted
    };
    let items = rows
        .iter()
        .map(|row| cluster::cluster(row, view, &cx.settings))
        .collect();
    Ok(list_body("kubernetescluster", total, items))
}
