//! listConfigurations: the settings.

use serde_json::Value;

use super::super::context::Cx;
use super::super::error::ApiError;
use super::super::scope::{KEYWORD, PAGE, PAGE_SIZE};
use super::super::views::setting;
use super::{Entry, Part};
use crate::db::settings;
use crate::domain::settings::ALL;
use crate::protocol::command::{Command, Param, ParamType, Reply, Role};
use crate::protocol::envelope::list_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listConfigurations",
        description: "Lists the settings",
        since: None,
        roles: &[Role::Admin, Role::DomainAdmin],
        reply: Reply::List("configuration"),
        params: &[
            Param::optional("name", ParamType::String, "only the setting of this name"),
            Param::optional("category", ParamType::String, "only settings of this category"),
            Param::optional("group", ParamType::String, "only settings of this group"),
            KEYWORD,
            PAGE,
            PAGE_SIZE,
        ],
        response: setting::FIELDS,
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let page = cx.page()?;
    let mut conn = cx.connection().await?;
    let values = settings::load(&mut conn).await?;
    let (name, keyword) = (cx.text("name"), cx.text("keyword").map(str::to_lowercase));
    let other = |name: &str, only: &str| {
        cx.text(name)
            .is_some_and(|given| !given.eq_ignore_ascii_case(only))
    };
    let nothing = other("category", setting::CATEGORY) || other("group", setting::GROUP);
    let items: Vec<Value> = ALL
        .iter()
        .filter(|_| !nothing)
        .filter(|one| name.is_none_or(|name| name == one.name))
        .filter(|one| {
            keyword
                .as_ref()
                .is_none_or(|keyword| one.name.contains(keyword.as_str()))
        })
        .map(|one| setting::setting(one, &values))
        .collect();
    Ok(list_body("configuration", items.len(), page.cut(items)))
}
