//! Label and field selectors: those of a query, and those inside objects.

use serde_json::{Map, Value};

use super::json;

/// One demand on a label.
#[derive(Debug, Clone, PartialEq)]
enum Demand {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Demand {
    fn holds(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = |key: &str| labels.and_then(|map| map.get(key)).and_then(Value::as_str);
        match self {
            Self::In(key, wanted) => value(key).is_some_and(|found| wanted.iter().any(|item| item == found)),
            Self::NotIn(key, banned) => {
                value(key).is_none_or(|found| banned.iter().all(|item| item != found))
            }
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// A label selector: all its demands must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Labels {
    demands: Vec<Demand>,
    never: bool,
}

impl Labels {
    /// Reads the selector of a query: `a=b,c!=d,e in (f,g),!h`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut demands = Vec::new();
        for part in split_outside_brackets(text) {
            demands.push(parse_demand(part.trim())?);
        }
        Ok(Self {
            demands,
            never: false,
        })
    }

    /// Reads the selector of an object (`matchLabels`, `matchExpressions`). None at all selects nothing.
    pub(crate) fn of(selector: &Value) -> Self {
        if selector.is_null() {
            return Self {
                demands: Vec::new(),
                never: true,
            };
        }
        let mut demands: Vec<Demand> = json::object(selector, "/matchLabels")
            .into_iter()
            .flatten()
            .map(|(key, value)| Demand::In(key.clone(), vec![value.as_str().unwrap_or("").to_owned()]))
            .collect();
        for item in json::items(selector, "/matchExpressions") {
            let key = json::text(item, "/key").to_owned();
            let values = json::items(item, "/values")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            demands.push(match json::text(item, "/operator") {
                "NotIn" => Demand::NotIn(key, values),
                "Exists" => Demand::Exists(key),
                "DoesNotExist" => Demand::Absent(key),
                _ => Demand::In(key, values),
            });
        }
        Self {
            demands,
            never: false,
        }
    }

    /// True if the object's labels satisfy all demands.
    pub(crate) fn select(&self, object: &Value) -> bool {
        let labels = json::object(object, "/metadata/labels");
        !self.never && self.demands.iter().all(|demand| demand.holds(labels))
    }
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
    .collect()
}

fn parse_demand(part: &str) -> Result<Demand, String> {
    let list = |text: &str| -> Option<Vec<String>> {
        let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inside.split(',').map(|item| item.trim().to_owned()).collect())
    };
    let wrong = || format!("unable to parse requirement: {part}");
    if let Some(key) = part.strip_prefix('!') {
        return Ok(Demand::Absent(key.trim().to_owned()));
    }
    if let Some((key, values)) = part.split_once(" notin ") {
        return Ok(Demand::NotIn(
            key.trim().to_owned(),
            list(values).ok_or_else(wrong)?,
        ));
    }
    if let Some((key, values)) = part.split_once(" in ") {
        return Ok(Demand::In(key.trim().to_owned(), list(values).ok_or_else(wrong)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Demand::NotIn(
            key.trim().to_owned(),
            vec![value.trim().to_owned()],
        ));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Demand::In(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if part.contains(char::is_whitespace) {
        Err(wrong())
    } else {
        Ok(Demand::Exists(part.to_owned()))
    }
}

/// A field selector: `spec.nodeName=n,status.phase!=Failed`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Reads the selector of a query.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (path, equal, value) = if let Some((path, value)) = part.split_once("!=") {
                (path, false, value)
            } else if let Some((path, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (path, true, value)
            } else {
                return Err(format!("invalid selector: '{part}'; can't understand '{part}'"));
            };
            all.push((format!("/{}", path.replace('.', "/")), equal, value.to_owned()));
        }
        Ok(Self(all))
    }

    /// A selector for one name, as a watch of one object has it.
    pub(crate) fn and_name(mut self, name: &str) -> Self {
        self.0.push(("/metadata/name".to_owned(), true, name.to_owned()));
        self
    }

    /// True if the object has the wanted values. An absent field reads as "", an absent flag as "false".
    pub(crate) fn select(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, equal, wanted)| {
            let found = match json::at(object, path) {
                Value::String(text) => text.clone(),
                Value::Null if path == "/spec/unschedulable" => "false".to_owned(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            (found == *wanted) == *equal
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("", true)]
    #[case("app=web", true)]
    #[case("app==web,tier!=db", true)]
    #[case("app!=web", false)]
    #[case("app in (db, web)", true)]
    #[case("app notin (db,web)", false)]
    #[case("app", true)]
    #[case("!app", false)]
    #[case("!tier", true)]
    #[case("app in (web),tier", false)]
    fn a_query_selects_labels(#[case] selector: &str, #[case] expected: bool) {
        let object = json!({"metadata": {"labels": {"app": "web"}}});
        assert_eq!(Labels::parse(selector).unwrap().select(&object), expected);
    }

    #[test]
    fn a_selector_of_an_object_has_labels_and_expressions_and_null_selects_nothing() {
        let object = json!({"metadata": {"labels": {"app": "web"}}});
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]});
        assert!(Labels::of(&selector).select(&object));
        assert!(Labels::of(&json!({})).select(&object));
        assert!(!Labels::of(&Value::Null).select(&object));
    }

    #[test]
    fn fields_are_compared_as_text() {
        let pod =
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let selects = |text: &str| Fields::parse(text).unwrap().select(&pod);
        assert!(selects("spec.nodeName=n,status.phase!=Failed"));
        assert!(!selects("spec.nodeName=m"));
        assert!(selects("spec.unschedulable=false"));
        assert!(Fields::parse("nonsense").is_err());
        assert!(!Fields::default().and_name("q").select(&pod));
    }
}
