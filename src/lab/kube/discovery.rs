//! What the API says of itself: aggregated discovery (v2, v2beta1), the plain lists of older clients, and as much of
//! OpenAPI as kubectl needs to see that the server checks fields.

use serde_json::{Value, json};

use super::resources::{ALL, GROUPS, POD, Resource};

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The form in which a client wants discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Aggregated(&'static str),
    Plain,
}

impl Form {
    /// The first form of the `Accept` header that is known here.
    pub(crate) fn wanted(accept: &str) -> Self {
        for part in accept
            .split(',')
            .filter(|part| part.contains("as=APIGroupDiscoveryList"))
        {
            for version in ["v2", "v2beta1"] {
                if part
                    .split(';')
                    .any(|item| item.trim().strip_prefix("v=") == Some(version))
                {
                    return Self::Aggregated(version);
                }
            }
        }
        Self::Plain
    }

    /// The content type of the answer.
    pub(crate) fn content_type(self) -> String {
        match self {
            Self::Aggregated(version) => {
                format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
            }
            Self::Plain => "application/json".to_owned(),
        }
    }
}

fn members(group: &str) -> impl Iterator<Item = &'static Resource> {
    ALL.into_iter().filter(move |item| item.group == group)
}

/// `/api`.
pub(crate) fn core(form: Form) -> Value {
    match form {
        Form::Aggregated(version) => aggregated(version, &[""]),
        Form::Plain => json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}]}),
    }
}

/// `/apis`.
pub(crate) fn groups(form: Form) -> Value {
    match form {
        Form::Aggregated(version) => aggregated(version, &GROUPS),
        Form::Plain => {
            let groups: Vec<Value> = GROUPS.iter().map(|name| group(name)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
    }
}

/// `/apis/GROUP`, or `None` if it is not served.
pub(crate) fn one_group(name: &str) -> Option<Value> {
    let known = GROUPS.iter().find(|known| **known == name)?;
    let mut answer = group(known);
    super::json::put(&mut answer, "/kind", json!("APIGroup"));
    super::json::put(&mut answer, "/apiVersion", json!("v1"));
    Some(answer)
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version.clone()], "preferredVersion": version})
}

fn aggregated(version: &str, groups: &[&str]) -> Value {
    let items: Vec<Value> = groups
        .iter()
        .map(|name| {
            let metadata = if name.is_empty() {
                json!({})
            } else {
                json!({"name": name})
            };
            let resources: Vec<Value> = members(name).map(aggregated_resource).collect();
            json!({"metadata": metadata,
                "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items})
}

fn aggregated_resource(item: &'static Resource) -> Value {
    let mut answer = json!({
        "resource": item.plural,
        "responseKind": {"group": item.group, "version": item.version, "kind": item.kind},
        "scope": if item.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": item.singular,
        "verbs": VERBS,
    });
    if !item.short.is_empty() {
        super::json::put(&mut answer, "/shortNames", json!(item.short));
    }
    if item.in_all {
        super::json::put(&mut answer, "/categories", json!(["all"]));
    }
    let subs: Vec<Value> = subresources(item)
        .into_iter()
        .map(|(name, group, version, kind, verbs)| {
            json!({"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind},
                "verbs": verbs})
        })
        .collect();
    if !subs.is_empty() {
        super::json::put(&mut answer, "/subresources", json!(subs));
    }
    answer
}

type Subresource = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

fn subresources(item: &'static Resource) -> Vec<Subresource> {
    let mut all: Vec<Subresource> = Vec::new();
    if *item == POD {
        all.push(("binding", "", "v1", "Binding", &["create"]));
        all.push(("eviction", "policy", "v1", "Eviction", &["create"]));
    }
    if item.scale {
        all.push(("scale", "autoscaling", "v1", "Scale", &["get", "patch", "update"]));
    }
    if item.status {
        all.push((
            "status",
            item.group,
            item.version,
            item.kind,
            &["get", "patch", "update"],
        ));
    }
    all
}

/// `/api/v1` or `/apis/GROUP/VERSION`, or `None` if it is not served.
pub(crate) fn resource_list(group: &str, version: &str) -> Option<Value> {
    if version != "v1" || !(group.is_empty() || GROUPS.contains(&group)) {
        return None;
    }
    let mut list = Vec::new();
    for item in members(group) {
        let mut entry = json!({"name": item.plural, "singularName": item.singular, "namespaced": item.namespaced,
            "kind": item.kind, "verbs": VERBS});
        if !item.short.is_empty() {
            super::json::put(&mut entry, "/shortNames", json!(item.short));
        }
        if item.in_all {
            super::json::put(&mut entry, "/categories", json!(["all"]));
        }
        list.push(entry);
        for (name, sub_group, sub_version, kind, verbs) in subresources(item) {
            let mut entry = json!({"name": format!("{}/{name}", item.plural), "singularName": "",
                "namespaced": item.namespaced, "kind": kind, "verbs": verbs});
            if sub_group != item.group {
                super::json::put(&mut entry, "/group", json!(sub_group));
                super::json::put(&mut entry, "/version", json!(sub_version));
            }
            list.push(entry);
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list}),
    )
}

fn root(group: &str) -> String {
    if group.is_empty() {
        "api/v1".to_owned()
    } else {
        format!("apis/{group}/v1")
    }
}

/// `/openapi/v3`.
pub(crate) fn openapi_index() -> Value {
    let mut paths = json!({});
    for group in std::iter::once("").chain(GROUPS) {
        let root = root(group);
        let pointer = format!("/{}", root.replace('/', "~1"));
        let url = format!(
            "/openapi/v3/{root}?hash={}",
            super::defaults::letters_of(&root, 16)
        );
        super::json::put(&mut paths, &pointer, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` and the like: for each kind only that POST and PATCH take `fieldValidation`.
pub(crate) fn openapi_of(place: &str) -> Option<Value> {
    let group = std::iter::once("")
        .chain(GROUPS)
        .find(|group| root(group) == place)?;
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let parameters = json!([
        parameter("dryRun"),
        parameter("fieldManager"),
        parameter("fieldValidation")
    ]);
    let mut paths = json!({});
    for item in members(group) {
        let kind = json!({"group": item.group, "version": item.version, "kind": item.kind});
        let operation = |action: &str| {
            json!({action: {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
                "parameters": parameters, "responses": {"200": {"description": "OK"}}}})
        };
        let middle = if item.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let collection = format!("/{}{middle}/{}", root(group), item.plural);
        let pointer = |path: &str| format!("/{}", path.replace('/', "~1"));
        super::json::put(&mut paths, &pointer(&collection), operation("post"));
        super::json::put(
            &mut paths,
            &pointer(&format!("{collection}/{{name}}")),
            operation("patch"),
        );
    }
    Some(
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "unversioned"}, "paths": paths,
        "components": {"schemas": {}}}),
    )
}

/// `/openapi/v2` as kubectl 1.27 reads it: a protobuf document that says `swagger: "2.0"` and defines nothing.
pub(crate) const OPENAPI_V2_PROTOBUF: &[u8] = b"\x0a\x032.0";

/// Whether `pods/eviction` and the budgets' group are there, by which `kubectl drain` decides to evict.
#[cfg(test)]
fn offers_eviction() -> bool {
    let list = resource_list("", "v1").unwrap_or_default();
    let eviction = super::json::items(&list, "/resources")
        .iter()
        .any(|item| item["name"] == "pods/eviction" && item["group"] == "policy" && item["version"] == "v1");
    eviction && GROUPS.contains(&"policy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_takes_the_form_that_the_client_asked_for() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;\
                       g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(Form::wanted(kubectl), Form::Aggregated("v2"));
        let older =
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(Form::wanted(older), Form::Aggregated("v2beta1"));
        assert_eq!(Form::wanted("application/json, */*"), Form::Plain);
        assert_eq!(core(Form::Plain)["kind"], "APIVersions");
        assert_eq!(
            groups(Form::Aggregated("v2"))["items"][0]["metadata"]["name"],
            "apps"
        );
        assert_eq!(
            one_group("apps").unwrap()["preferredVersion"]["groupVersion"],
            "apps/v1"
        );
    }

    #[test]
    fn drains_find_the_eviction() {
        assert!(offers_eviction());
    }

    #[test]
    fn openapi_says_that_fields_are_checked() {
        let document = openapi_of("apis/apps/v1").unwrap();
        let post = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments"]["post"];
        assert_eq!(post["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        assert!(
            post["parameters"]
                .as_array()
                .unwrap()
                .iter()
                .any(|item| item["name"] == "fieldValidation")
        );
        assert!(openapi_index()["paths"]["apis/apps/v1"]["serverRelativeURL"].is_string());
        assert!(openapi_of("apis/nothing/v1").is_none());
    }
}
