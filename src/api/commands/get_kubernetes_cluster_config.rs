//! getKubernetesClusterConfig: the kubeconfig of a cluster's administrator.

use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::super::context::Cx;
use super::super::error::ApiError;
use super::{Entry, Part};
use crate::db::{clusters, details};
use crate::domain::cluster::State;
use crate::protocol::command::{Command, Field, FieldType, Param, ParamType, Reply, Role};
use crate::protocol::envelope::object_body;
use crate::protocol::{Code, CsCode, Fault};

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "getKubernetesClusterConfig",
        description: "Gives the kubeconfig of a cluster",
        since: Some("4.14.0"),
        roles: Role::ALL,
        reply: Reply::Object("clusterconfig"),
        params: &[Param::optional("id", ParamType::Uuid, "the cluster")],
        response: &[
            Field::new("id", FieldType::String, "the id of the cluster"),
            Field::new("name", FieldType::String, "its name"),
            Field::new("configdata", FieldType::String, "the kubeconfig"),
        ],
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Kubernetes,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let mut conn = cx.connection().await?;
    let (key, _) = cx.cluster(&mut conn, "id").await?;
    let cluster = clusters::by_key(&mut conn, key).await?;
    let stored = details::find_sealed(&mut conn, &cx.api.state.cipher, key, details::KUBECONFIG).await?;
    let Some(config) = stored else {
        let why = match cluster.state {
            State::Starting => "is being set up: ask again when it is Running",
            _ => "has no stored kubeconfig",
        };
        let text = format!("cluster {} ({}) {why}", cluster.name, cluster.id);
        return Err(Fault::new(Code::Internal, CsCode::CloudRuntime, text).into());
    };
    Ok(object_body(
        "clusterconfig",
        json!({
            "id": cluster.id.to_string(),
            "name": cluster.name,
            "configdata": config.expose_secret(),
        }),
    ))
}
