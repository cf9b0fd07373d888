//! Which nodes can take a pod: taints, selectors, affinity, resources, spread.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::json as js;
use super::super::selector::Labels;
use super::workload;

/// True if a toleration of the pod covers a taint.
pub(crate) fn tolerates(pod: &Value, taint: &Value) -> bool {
    js::items(pod, "/spec/tolerations")
        .iter()
        .any(|toleration| covers(toleration, taint))
}

/// True if the toleration covers the taint.
pub(crate) fn covers(toleration: &Value, taint: &Value) -> bool {
    let (key, effect) = (js::text(toleration, "/key"), js::text(toleration, "/effect"));
    let exists = js::text(toleration, "/operator") == "Exists";
    (effect.is_empty() || effect == js::text(taint, "/effect"))
        && ((key.is_empty() && exists) || key == js::text(taint, "/key"))
        && (exists || js::text(toleration, "/value") == js::text(taint, "/value"))
}

/// The first taint that keeps the pod off the node.
pub(crate) fn hindering<'a>(pod: &Value, node: &'a Value) -> Option<&'a Value> {
    js::items(node, "/spec/taints")
        .iter()
        .filter(|taint| js::text(taint, "/effect") != "PreferNoSchedule")
        .find(|taint| !tolerates(pod, taint))
}

/// True if no taint and no cordon keeps the pod off the node.
pub(crate) fn tolerated(pod: &Value, node: &Value) -> bool {
    let cordon = serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    hindering(pod, node).is_none() && (!js::flag(node, "/spec/unschedulable") || tolerates(pod, &cordon))
}

/// True if the pod's node selector and required node affinity want the node.
pub(crate) fn selected(pod: &Value, node: &Value) -> bool {
    let labels = js::object(node, "/metadata/labels");
    let by_selector = js::object(pod, "/spec/nodeSelector")
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.and_then(|map| map.get(key)) == Some(value));
    let terms = js::items(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    by_selector && (terms.is_empty() || terms.iter().any(|term| term_selects(term, node, labels)))
}

fn term_selects(term: &Value, node: &Value, labels: Option<&Map<String, Value>>) -> bool {
    let label = |key: &str| labels.and_then(|map| map.get(key)).and_then(Value::as_str);
    let field = |key: &str| (key == "metadata.name").then(|| js::name(node));
    js::items(term, "/matchExpressions")
        .iter()
        .all(|item| demand(item, label(js::text(item, "/key"))))
        && js::items(term, "/matchFields")
            .iter()
            .all(|item| demand(item, field(js::text(item, "/key"))))
}

fn demand(item: &Value, found: Option<&str>) -> bool {
    let values: Vec<&str> = js::items(item, "/values")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = number(values.first().copied());
    match js::text(item, "/operator") {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => found.is_none_or(|found| !values.contains(&found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => number(found)
            .zip(bound)
            .is_some_and(|(found, bound)| found > bound),
        "Lt" => number(found)
            .zip(bound)
            .is_some_and(|(found, bound)| found < bound),
        _ => false,
    }
}

/// A quantity as thousandths: `500m`, `2`, `1Gi`, `100M`.
pub(crate) fn quantity(text: &str) -> i64 {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let thousandths: i64 = format!("{part:0<3}")
        .get(..3)
        .and_then(|part| part.parse().ok())
        .unwrap_or(0);
    let base = whole
        .parse::<i64>()
        .unwrap_or(0)
        .saturating_mul(1000)
        .saturating_add(thousandths);
    let kilo = |power| 1024_i64.saturating_pow(power);
    match unit {
        "m" => base / 1000,
        "k" => base.saturating_mul(1000),
        "M" => base.saturating_mul(1_000_000),
        "G" => base.saturating_mul(1_000_000_000),
        "Ki" => base.saturating_mul(kilo(1)),
        "Mi" => base.saturating_mul(kilo(2)),
        "Gi" => base.saturating_mul(kilo(3)),
        "Ti" => base.saturating_mul(kilo(4)),
        _ => base,
    }
}

fn requested(pod: &Value, what: &str) -> i64 {
    js::items(pod, "/spec/containers")
        .iter()
        .map(
            |container| match js::at(container, &format!("/resources/requests/{what}")) {
                Value::String(text) => quantity(text),
                Value::Number(number) => quantity(&number.to_string()),
                _ => 0,
            },
        )
        .sum()
}

/// What the node lacks for the pod beside those it has, as the scheduler words it.
pub(crate) fn lacking(pod: &Value, node: &Value, present: &[&Arc<Value>]) -> Option<&'static str> {
    let allocatable = |what: &str| {
        let text = js::text(node, &format!("/status/allocatable/{what}"));
        if text.is_empty() { i64::MAX } else { quantity(text) }
    };
    if workload::count_of(present).saturating_mul(1000) >= allocatable("pods") {
        return Some("Too many pods");
    }
    for (what, words) in [("cpu", "Insufficient cpu"), ("memory", "Insufficient memory")] {
        let wanted = requested(pod, what);
        let used: i64 = present.iter().map(|pod| requested(pod, what)).sum();
        if wanted > 0 && used.saturating_add(wanted) > allocatable(what) {
            return Some(words);
        }
    }
    None
}

/// The value of a topology label on a node; a node without the label is a place of its own by its name.
fn domain<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    let label = js::object(node, "/metadata/labels")
        .and_then(|labels| labels.get(key))
        .and_then(Value::as_str);
    label.or_else(|| (key == "kubernetes.io/hostname").then(|| js::name(node)))
}

/// All nodes, and the placed pods that count, for questions of spread.
pub(crate) struct Field<'a> {
    pub(crate) nodes: &'a [Arc<Value>],
    pub(crate) placed: &'a [Arc<Value>],
}

impl Field<'_> {
    fn pods_in(&self, key: &str, place: &str, namespace: &str, labels: &Labels) -> i64 {
        let here = |pod: &Value| {
            self.nodes
                .iter()
                .find(|node| js::name(node) == js::text(pod, "/spec/nodeName"))
                .is_some_and(|node| domain(node, key) == Some(place))
        };
        let counted = self.placed.iter().filter(|pod| {
            js::namespace(pod) == namespace && labels.select(pod) && !js::deleting(pod) && here(pod)
        });
        i64::try_from(counted.count()).unwrap_or(0)
    }

    /// True if required anti-affinity (the pod's own) or a hard spread constraint keeps the pod off the node.
    pub(crate) fn too_close(&self, pod: &Value, node: &Value) -> bool {
        let namespace = js::namespace(pod);
        let anti = js::items(
            pod,
            "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution",
        );
        let near = anti.iter().any(|term| {
            let key = js::text(term, "/topologyKey");
            let labels = Labels::of(js::at(term, "/labelSelector"));
            domain(node, key).is_some_and(|place| self.pods_in(key, place, namespace, &labels) > 0)
        });
        near || js::items(pod, "/spec/topologySpreadConstraints")
            .iter()
            .filter(|constraint| js::text(constraint, "/whenUnsatisfiable") != "ScheduleAnyway")
            .any(|constraint| {
                let key = js::text(constraint, "/topologyKey");
                let labels = Labels::of(js::at(constraint, "/labelSelector"));
                let Some(here) = domain(node, key) else {
                    return true;
                };
                let count = |place: &str| self.pods_in(key, place, namespace, &labels);
                let places = self
                    .nodes
                    .iter()
                    .filter(|one| selected(pod, one))
                    .filter_map(|one| domain(one, key));
                let lowest = places.map(count).min().unwrap_or(0);
                count(here) + 1 - lowest > js::int(constraint, "/maxSkew").unwrap_or(1)
            })
    }

    /// How full a node is, seen from the pod: pods of the same owner first, then all. Lower is better.
    pub(crate) fn load(&self, pod: &Value, node: &Value) -> (usize, usize) {
        let owner = js::controller(pod).map_or("", |owner| js::text(owner, "/uid"));
        let here = self
            .placed
            .iter()
            .filter(|one| js::text(one, "/spec/nodeName") == js::name(node) && !js::deleting(one));
        let (mut same, mut all) = (0, 0);
        for one in here {
            all += 1;
            same += usize::from(!owner.is_empty() && js::controlled_by(one, owner));
        }
        (same, all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_read_in_thousandths() {
        for (text, expected) in [
            ("500m", 500),
            ("2", 2000),
            ("1.5", 1500),
            ("1Ki", 1_024_000),
            ("8Gi", 8_589_934_592_000),
            ("110", 110_000),
            ("nonsense", 0),
        ] {
            assert_eq!(quantity(text), expected, "{text}");
        }
    }

    #[test]
    fn a_cordon_and_a_taint_keep_pods_away_unless_tolerated() {
        let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true,
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
        let none = json!({"spec": {}});
        let one = json!({"spec": {"tolerations": [{"key": "k", "value": "v"}]}});
        let all = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        assert!(!tolerated(&none, &node));
        assert!(!tolerated(&one, &node));
        assert!(tolerated(&all, &node));
        assert!(hindering(&one, &node).is_none());
    }

    #[test]
    fn affinity_terms_are_alternatives_of_demands() {
        let node = json!({"metadata": {"name": "n", "labels": {"zone": "a", "size": "5"}}});
        let pod = |terms: Value| {
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": terms}}}}})
        };
        let by_name =
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m", "n"]}]}]);
        assert!(selected(&pod(by_name), &node));
        let zone_b = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]});
        let large = json!({"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]});
        assert!(!selected(&pod(json!([zone_b])), &node));
        assert!(selected(&pod(json!([zone_b, large])), &node));
        assert!(!selected(
            &json!({"spec": {"nodeSelector": {"zone": "b"}}}),
            &node
        ));
    }
}
