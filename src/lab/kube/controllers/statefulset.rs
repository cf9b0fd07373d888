//! StatefulSets, simply: numbered pods, made and removed in order.

use serde_json::json;

use super::super::delete::{self, DeleteOptions};
use super::super::json::{self as js, put};
use super::super::objects::{self, Write};
use super::super::resources::{POD, STATEFUL_SET};
use super::super::store::State;
use super::events::{self, Source};
use super::workload;

pub(super) fn run(state: &mut State) {
    for set in state.list(&STATEFUL_SET, None) {
        let wanted = js::count(&set, "/spec/replicas").max(0);
        let pods = workload::pods_of(state, &set);
        let name_of = |number: i64| format!("{}-{number}", js::name(&set));
        let parallel = js::text(&set, "/spec/podManagementPolicy") == "Parallel";
        if !js::deleting(&set) {
            for number in 0..wanted {
                let name = name_of(number);
                match pods.iter().find(|pod| js::name(pod) == name) {
                    None => {
                        let mut pod = workload::from_template(&set);
                        js::take(&mut pod, "/metadata/generateName");
                        put(&mut pod, "/metadata/name", json!(name));
                        put(
                            &mut pod,
                            "/metadata/labels/statefulset.kubernetes.io~1pod-name",
                            json!(name),
                        );
                        put(
                            &mut pod,
                            "/metadata/labels/apps.kubernetes.io~1pod-index",
                            json!(number.to_string()),
                        );
                        put(&mut pod, "/spec/hostname", json!(name));
                        if objects::create(state, &POD, js::namespace(&set), pod, Write::Keep).is_ok() {
                            let message =
                                format!("create Pod {name} in StatefulSet {} successful", js::name(&set));
                            events::tell(
                                state,
                                &set,
                                Source::StatefulSets,
                                "Normal",
                                "SuccessfulCreate",
                                &message,
                            );
                        }
                        if !parallel {
                            break;
                        }
                    }
                    Some(pod) if !parallel && (!workload::ready(pod) || js::deleting(pod)) => break,
                    Some(_) => {}
                }
            }
            let surplus = pods
                .iter()
                .filter(|pod| !(0..wanted).any(|number| js::name(pod) == name_of(number)))
                .max_by_key(|pod| js::name(pod).to_owned());
            if let Some(pod) = surplus.filter(|pod| !js::deleting(pod)) {
                drop(delete::delete(
                    state,
                    &POD,
                    js::namespace(pod),
                    js::name(pod),
                    &DeleteOptions::default(),
                ));
            }
        }
        let pods = workload::pods_of(state, &set);
        let ready = i64::try_from(pods.iter().filter(|pod| workload::ready(pod)).count()).unwrap_or(0);
        let all = workload::count_of(&pods);
        workload::observed(state, &STATEFUL_SET, &set, |object| {
            workload::numbers(
                object,
                &[("replicas", all), ("availableReplicas", ready)],
                &[
                    ("readyReplicas", ready),
                    ("currentReplicas", all),
                    ("updatedReplicas", all),
                ],
            );
        });
    }
}
