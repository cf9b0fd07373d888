//! What admission must know from the cloud: from the cache if it is younger than a minute, else asked anew.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::context::Cx;
use super::error::ApiError;
use crate::db::cloud_objects::{self, CloudKind, CloudObject};
use crate::domain::cluster::Cluster;
use crate::domain::id::{OfferingId, TemplateId};
use crate::domain::plan::admission::{OfferingFacts, ScaleRequest, TemplateFacts};
use crate::ports::cloud::{Cloud, CloudError, Offering, Template};

/// How old a cached fact may be to admit a request.
const FRESH: SignedDuration = SignedDuration::from_secs(60);
/// How long the cloud has for its answers, all together.
const LIMIT: Duration = Duration::from_secs(5);

/// Where facts may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The cache where it is young enough, else the cloud.
    CacheFirst,
    /// The cloud: a cached fact may admit, but never refuses.
    Cloud,
}

/// What the cloud says.
#[derive(Debug, Clone, Default)]
pub struct CloudFacts {
    /// Offerings by id; one that the cloud does not know is absent.
    pub offerings: BTreeMap<OfferingId, OfferingFacts>,
    /// The template for new workers.
    pub template: Option<TemplateFacts>,
    /// Whether any of it comes from the cache.
    pub cached: bool,
}

/// The facts that a request needs, or the cloud's failure to tell them. Nothing is held while the cloud is asked.
pub async fn gather(
    cx: &Cx,
    request: &ScaleRequest,
    cluster: &Cluster,
    source: Source,
) -> Result<Result<CloudFacts, CloudError>, ApiError> {
    let now = cx.api.state.clock.now();
    let mut offerings: Vec<OfferingId> = request.offerings_needed(cluster).into_iter().collect();
    let mut template = request.template_needed(cluster);
    let mut facts = CloudFacts::default();
    if source == Source::CacheFirst && !(offerings.is_empty() && template.is_none()) {
        let mut known: BTreeMap<OfferingId, Offering> = BTreeMap::new();
        for id in &offerings {
            if let Some(offering) = cached(cx, CloudKind::Offering, id.0, now).await? {
                known.insert(*id, offering);
            }
        }
        if let Some(id) = template
            && let Some(known) = cached::<Template>(cx, CloudKind::Template, id.0, now).await?
        {
            facts.template = Some(template_facts(known));
            facts.cached = true;
            template = None;
        }
        facts.cached |= !known.is_empty();
        offerings.retain(|id| !known.contains_key(id));
        facts.offerings = known
            .into_iter()
            .map(|(id, one)| (id, offering_facts(one)))
            .collect();
    }
    if offerings.is_empty() && template.is_none() {
        return Ok(Ok(facts));
    }
    let (asked, asked_template) = match ask(cx.api.state.cloud.as_ref(), &offerings, template).await {
        Ok(answers) => answers,
        Err(error) => return Ok(Err(error)),
    };
    for offering in asked.into_iter().flatten() {
        keep(
            cx,
            CloudKind::Offering,
            offering.id.0,
            &offering.name,
            &offering,
            now,
        )
        .await?;
        facts.offerings.insert(offering.id, offering_facts(offering));
    }
    if let Some(asked) = asked_template {
        keep(cx, CloudKind::Template, asked.id.0, &asked.name, &asked, now).await?;
        facts.template = Some(template_facts(asked));
    }
    Ok(Ok(facts))
}

type Answers = (Vec<Option<Offering>>, Option<Template>);

async fn ask(
    cloud: &dyn Cloud,
    offerings: &[OfferingId],
    template: Option<TemplateId>,
) -> Result<Answers, CloudError> {
    let all = try_join(
        try_join_all(offerings.iter().map(|id| cloud.offering(*id))),
        async {
            match template {
                Some(id) => cloud.template(id).await,
                None => Ok(None),
            }
        },
    );
    match tokio::time::timeout(LIMIT, all).await {
        Ok(answers) => answers,
        Err(_) => Err(CloudError {
            command: "listServiceOfferings".to_owned(),
            text: format!("no answer in {} seconds", LIMIT.as_secs()),
            kind: crate::ports::cloud::CloudErrorKind::Away,
            effect: crate::ports::fault::Effect::DidNotHappen,
            retry: crate::ports::fault::Retry::Soon,
        }),
    }
}

async fn cached<T: DeserializeOwned>(
    cx: &Cx,
    kind: CloudKind,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<T>, ApiError> {
    let mut conn = cx.connection().await?;
    let found = cloud_objects::find(&mut conn, kind, id).await?;
    Ok(found
        .filter(|object| now.duration_since(object.seen_at) < FRESH)
        .and_then(|object| serde_json::from_value(object.data).ok()))
}

async fn keep<T: Serialize>(
    cx: &Cx,
    kind: CloudKind,
    id: Uuid,
    name: &str,
    object: &T,
    now: Timestamp,
) -> Result<(), ApiError> {
    let object = CloudObject {
        name: name.to_owned(),
        data: serde_json::to_value(object).map_err(ApiError::internal)?,
        seen_at: now,
    };
    let mut conn = cx.connection().await?;
    Ok(cloud_objects::put(&mut conn, kind, id, &object).await?)
}

fn offering_facts(offering: Offering) -> OfferingFacts {
    OfferingFacts {
        id: offering.id,
        name: offering.name,
        cpu_number: offering.cpu_number,
        cpu_speed: offering.cpu_speed,
        memory_mb: offering.memory_mb,
        customized: offering.customized,
    }
}

fn template_facts(template: Template) -> TemplateFacts {
    TemplateFacts {
        name: template.name,
        ready: template.ready,
    }
}
