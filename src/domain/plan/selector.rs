//! Which pods a label selector matches, as Kubernetes has it for disruption budgets.
//!
//! `null` selects nothing, `{}` selects everything. A selector that cannot be read selects everything: a
//! budget that we do not understand must be named rather than overlooked.

use std::collections::BTreeMap;

use serde_json::Value;

/// Whether `selector` matches `labels`.
#[must_use]
pub fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let Value::Object(parts) = selector else {
        return !selector.is_null();
    };
    let equal = match parts.get("matchLabels") {
        Some(Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| labels.get(key).map(String::as_str) == value.as_str()),
        _ => true,
    };
    let expressions = match parts.get("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.iter().all(|one| expression(one, labels)),
        _ => true,
    };
    equal && expressions
}

fn expression(expression: &Value, labels: &BTreeMap<String, String>) -> bool {
    let Some(key) = expression.get("key").and_then(Value::as_str) else {
        return true;
    };
    let found = labels.get(key);
    let listed = || {
        let values = expression.get("values").and_then(Value::as_array);
        values.is_some_and(|values| {
            values
                .iter()
                .any(|value| value.as_str().is_some() && value.as_str() == found.map(String::as_str))
        })
    };
    match expression.get("operator").and_then(Value::as_str) {
        Some("In") => listed(),
        Some("NotIn") => !listed(),
        Some("Exists") => found.is_some(),
        Some("DoesNotExist") => found.is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn null_selects_nothing_and_the_empty_selector_everything() {
        assert!(!selects(&Value::Null, &labels(&[("app", "web")])));
        assert!(selects(&json!({}), &labels(&[])));
    }

    #[test]
    fn all_match_labels_must_be_there() {
        let selector = json!({"matchLabels": {"app": "web", "tier": "front"}});
        assert!(selects(
            &selector,
            &labels(&[("app", "web"), ("tier", "front"), ("x", "y")])
        ));
        assert!(!selects(&selector, &labels(&[("app", "web")])));
        assert!(!selects(&selector, &labels(&[("app", "web"), ("tier", "back")])));
    }

    #[test]
    fn each_operator_does_what_kubernetes_says() {
        let web = labels(&[("app", "web")]);
        let one = |operator: &str, values: &[&str], key: &str| {
            selects(
                &json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}),
                &web,
            )
        };
        assert!(one("In", &["web", "api"], "app"));
        assert!(!one("In", &["api"], "app"));
        assert!(!one("In", &["web"], "tier"));
        assert!(one("NotIn", &["api"], "app"));
        assert!(!one("NotIn", &["web"], "app"));
        assert!(
            one("NotIn", &["web"], "tier"),
            "a label that is not there is in no list"
        );
        assert!(one("Exists", &[], "app"));
        assert!(!one("Exists", &[], "tier"));
        assert!(one("DoesNotExist", &[], "tier"));
        assert!(!one("DoesNotExist", &[], "app"));
    }

    #[test]
    fn labels_and_expressions_must_both_match() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}]
        });
        assert!(!selects(&selector, &labels(&[("app", "web")])));
        assert!(selects(&selector, &labels(&[("app", "web"), ("tier", "front")])));
    }
}
