//! listCapabilities: what this service can do.

use serde_json::{Value, json};

use super::super::context::Cx;
use super::super::error::ApiError;
use super::{Entry, Part};
use crate::domain::settings::{
    DEFAULT_PAGE_SIZE, EXPERIMENTAL_FEATURES, THROTTLING_ENABLED, THROTTLING_INTERVAL, THROTTLING_MAX,
};
use crate::protocol::CLOUDSTACK_VERSION;
use crate::protocol::command::{Command, Field, FieldType, Reply, Role};
use crate::protocol::envelope::object_body;

pub(super) const ENTRY: Entry = Entry {
    command: Command {
        name: "listCapabilities",
        description: "Shows what this service can do",
        since: None,
        roles: Role::ALL,
        reply: Reply::Object("capability"),
        params: &[],
        response: &[
            Field::new(
                "cloudstackversion",
                FieldType::String,
                "the CloudStack release that the API follows",
            ),
            Field::new(
                "kubernetesserviceenabled",
                FieldType::Boolean,
                "whether Kubernetes clusters are offered",
            ),
            Field::new(
                "kubernetesclusterexperimentalfeaturesenabled",
                FieldType::Boolean,
                "whether a private docker registry may be given",
            ),
            Field::new(
                "allowuserexpungerecovervm",
                FieldType::Boolean,
                "whether users may expunge machines here",
            ),
            Field::new(
                "defaultuipagesize",
                FieldType::Long,
                "items on a page when none are asked for",
            ),
            Field::new(
                "apilimitmax",
                FieldType::Integer,
                "most calls of an account within the interval",
            ),
            Field::new("apilimitinterval", FieldType::Integer, "that interval in seconds"),
        ],
    },
    run: |cx| Box::pin(run(cx)),
    part: Part::Platform,
};

#[expect(clippy::unused_async, reason = "every command is called the same way")]
async fn run(cx: &Cx) -> Result<Value, ApiError> {
    let mut capability = json!({
        "cloudstackversion": CLOUDSTACK_VERSION,
        "kubernetesserviceenabled": cx.api.state.options.service_enabled,
        "kubernetesclusterexperimentalfeaturesenabled": cx.settings.boolean(&EXPERIMENTAL_FEATURES),
        "allowuserexpungerecovervm": false,
        "defaultuipagesize": cx.settings.number(&DEFAULT_PAGE_SIZE),
    });
    if let (true, Some(members)) = (
        cx.settings.boolean(&THROTTLING_ENABLED),
        capability.as_object_mut(),
    ) {
        members.insert(
            "apilimitmax".to_owned(),
            json!(cx.settings.number(&THROTTLING_MAX)),
        );
        members.insert(
            "apilimitinterval".to_owned(),
            json!(cx.settings.number(&THROTTLING_INTERVAL)),
        );
    }
    Ok(object_body("capability", capability))
}
