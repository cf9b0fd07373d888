//! listKubernetesSupportedVersions.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::scope::{KEYWORD, PAGE, PAGE_SIZE};
use super::super::views::machine::View;
use super::super::views::version;
use super::{Entry, Part};
use crate::db::lists::versions::{self, Filter};
use crate::domain::id::{VersionId, ZoneId};
use crate::domain::version::KubeVersion;
use crate::protocol::Fault;
use crate::protocol::command::{Command, Param, ParamType, Reply, Role};
use crate::protocol::envelope::list_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listKubernetesSupportedVersions",
        description: "Lists the Kubernetes versions that clusters may have",
        since: Some("4.14.0"),
        roles: Role::ALL,
        reply: Reply::List("kubernetessupportedversion"),
        params: &[
            Param::optional("id", ParamType::Uuid, "only the version of this id"),
            Param::optional(
                "zoneid",
                ParamType::Uuid,
                "only versions that are usable in this zone",
            ),
            Param::optional(
                "minimumsemanticversion",
                ParamType::String,
                "only versions from this one on",
            ),
            Param::optional(
                "minimumkubernetesversionid",
                ParamType::Uuid,
                "only versions from the one of this id on",
            ),
            Param::optional(
                "arch",
                ParamType::String,
                "only versions for this CPU architecture",
            )
            .since("4.20.0"),
            KEYWORD,
            PAGE,
            PAGE_SIZE,
        ],
        response: version::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Kubernetes,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let page = cx.page()?;
    let mut conn = cx.connection().await?;
    let id = cx.id("id")?.map(VersionId);
    if let Some(id) = id
        && versions::semantic_version_of(&mut conn, id).await?.is_none()
    {
        return Err(cx.unknown_id("id", &id.to_string()).into());
    }
    let least = match (
        cx.text("minimumsemanticversion"),
        cx.id("minimumkubernetesversionid")?,
    ) {
        (Some(_), Some(_)) => {
            return Err(Fault::invalid(
                "minimumsemanticversion and minimumkubernetesversionid cannot be given together",
            )
            .into());
        }
        (Some(text), None) => Some(text.to_owned()),
        (None, Some(least)) => Some(
            versions::semantic_version_of(&mut conn, VersionId(least))
                .await?
                .ok_or_else(|| cx.unknown_id("minimumkubernetesversionid", &least.to_string()))?,
        ),
        (None, None) => None,
    };
    let least: Option<KubeVersion> = match least {
        Some(text) => Some(
            text.parse()
                .map_err(|_| Fault::invalid(format!("{text} is no version of the form 1.32.5")))?,
        ),
        None => None,
    };
    let filter = Filter {
        id,
        zone: cx.id("zoneid")?.map(ZoneId),
        arch: cx.text("arch").map(str::to_owned),
        keyword: cx.text("keyword").map(str::to_owned),
    };
    // The count is that of what is shown: versions below the least one are dropped before paging.
    let rows: Vec<_> = versions::list(&mut conn, &filter)
        .await?
        .into_iter()
        .filter(|row| match &least {
            Some(least) => row
                .semantic_version
                .parse::<KubeVersion>()
                .is_ok_and(|version| version >= *least),
            None => true,
        })
        .collect();
    let total = rows.len();
    let view = if cx.is_admin() {
        View::Full
    } else {
        View::Restricted
    };
    let items = page
        .cut(rows)
        .iter()
        .map(|row| version::version(row, view))
        .collect();
    Ok(list_body("kubernetessupportedversion", total, items))
}
