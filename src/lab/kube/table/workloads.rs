//! The tables of what runs pods, and of the budgets that protect them.

use serde_json::{Value, json};

use super::super::json as js;
use super::{Layout, created, joined, narrow, or, selector_text, wide};

fn containers(object: &Value) -> &[Value] {
    js::items(object, "/spec/template/spec/containers")
}

fn number(object: &Value, pointer: &str) -> Value {
    json!(js::count(object, pointer).to_string())
}

fn tail(object: &Value) -> [Value; 3] {
    [
        json!(joined(containers(object), "/name")),
        json!(joined(containers(object), "/image")),
        json!(selector_text(js::at(object, "/spec/selector"))),
    ]
}

fn ready(object: &Value) -> Value {
    json!(format!(
        "{}/{}",
        js::count(object, "/status/readyReplicas"),
        js::count(object, "/spec/replicas")
    ))
}

pub(super) static DEPLOYMENTS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Ready"),
        narrow("Up-to-date"),
        narrow("Available"),
        narrow("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object| {
        let mut cells = vec![
            json!(js::name(object)),
            ready(object),
            number(object, "/status/updatedReplicas"),
            number(object, "/status/availableReplicas"),
            created(object),
        ];
        cells.extend(tail(object));
        cells
    },
};

pub(super) static REPLICA_SETS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Desired"),
        narrow("Current"),
        narrow("Ready"),
        narrow("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object| {
        let mut cells = vec![
            json!(js::name(object)),
            number(object, "/spec/replicas"),
            number(object, "/status/replicas"),
            number(object, "/status/readyReplicas"),
            created(object),
        ];
        cells.extend(tail(object));
        cells
    },
};

pub(super) static DAEMON_SETS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Desired"),
        narrow("Current"),
        narrow("Ready"),
        narrow("Up-to-date"),
        narrow("Available"),
        narrow("Node Selector"),
        narrow("Age"),
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ],
    cells: |object| {
        let selector = json!({"matchLabels": js::at(object, "/spec/template/spec/nodeSelector")});
        let mut cells = vec![
            json!(js::name(object)),
            number(object, "/status/desiredNumberScheduled"),
            number(object, "/status/currentNumberScheduled"),
            number(object, "/status/numberReady"),
            number(object, "/status/updatedNumberScheduled"),
            number(object, "/status/numberAvailable"),
            json!(selector_text(&selector)),
            created(object),
        ];
        cells.extend(tail(object));
        cells
    },
};

pub(super) static STATEFUL_SETS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Ready"),
        narrow("Age"),
        wide("Containers"),
        wide("Images"),
    ],
    cells: |object| {
        let [names, images, _] = tail(object);
        vec![
            json!(js::name(object)),
            ready(object),
            created(object),
            names,
            images,
        ]
    },
};

pub(super) static BUDGETS: Layout = Layout {
    columns: &[
        narrow("Name"),
        narrow("Min Available"),
        narrow("Max Unavailable"),
        narrow("Allowed Disruptions"),
        narrow("Age"),
    ],
    cells: |object| {
        let limit = |pointer: &str| match js::at(object, pointer) {
            Value::String(text) => or(text, "N/A"),
            Value::Number(number) => json!(number.to_string()),
            _ => json!("N/A"),
        };
        vec![
            json!(js::name(object)),
            limit("/spec/minAvailable"),
            limit("/spec/maxUnavailable"),
            number(object, "/status/disruptionsAllowed"),
            created(object),
        ]
    },
};
