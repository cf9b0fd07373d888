//! The double of Kubernetes.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use secrecy::SecretString;

use super::faults::Mode;
use super::world::{Run, State, World, run_name};
use crate::domain::observed::{Budget, KubeNode, Pod, VolumeAttachment};
use crate::domain::plan::drain::would_move;
use crate::domain::plan::selector::selects;
use crate::ports::clock::Clock;
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::{Eviction, Kube, KubeError, KubeErrorKind, Via};
use crate::ports::shell::{Exit, Output, RunKey, RunState};

type Answer<T> = Result<T, KubeError>;

fn failed(mode: Mode) -> KubeError {
    KubeError {
        text: format!("fault injected ({mode:?})"),
        kind: if mode.away() {
            KubeErrorKind::ApiAway
        } else {
            KubeErrorKind::Failed
        },
        effect: mode.effect(),
        retry: mode.retry(),
    }
}

fn error(kind: KubeErrorKind, text: impl Into<String>) -> KubeError {
    KubeError {
        text: text.into(),
        kind,
        effect: Effect::DidNotHappen,
        retry: Retry::Later,
    }
}

impl World {
    async fn reads<T>(
        &self,
        via: &Via,
        name: &str,
        apply: impl FnOnce(&mut State) -> Answer<T>,
    ) -> Answer<T> {
        self.pass(&format!("kube.{name}")).await;
        let reached = self.reached(via);
        self.call(
            &format!("kube.{name}"),
            |state| {
                reached?;
                apply(state)
            },
            failed,
        )
    }

    async fn changes<T>(
        &self,
        via: &Via,
        name: &str,
        apply: impl FnOnce(&mut State) -> Answer<T>,
    ) -> Answer<T> {
        let epoch = via.fence.epoch;
        self.reads(via, name, |state| {
            if epoch < state.epoch {
                return Err(error(KubeErrorKind::Fence, "an older epoch"));
            }
            state.epoch = epoch;
            apply(state)
        })
        .await
    }

    /// Whether the target leads to the control node that it names.
    fn reached(&self, via: &Via) -> Answer<()> {
        self.reach(&via.target)
            .map_err(|text| error(KubeErrorKind::ControlNode, text))
    }
}

impl State {
    /// What a drain does, and how it ends.
    fn drain(&mut self, node: &str) -> Output {
        if let Some(node) = self.nodes.get_mut(node) {
            node.unschedulable = true;
        }
        let on_it: Vec<usize> = (0..self.pods.len())
            .filter(|index| self.pods[*index].0 == node && would_move(&self.pods[*index].1))
            .collect();
        if let Some(index) = on_it
            .iter()
            .find(|index| self.pods[**index].1.controller.is_none())
        {
            let pod = &self.pods[*index].1;
            let text = format!(
                "error: unable to drain node \"{node}\" due to error: cannot delete cannot delete Pods that \
                 declare no controller (use --force to override): {}/{}, continuing command...\n",
                pod.namespace, pod.name
            );
            return ended(1, "", &text);
        }
        let mut refused: Vec<String> = Vec::new();
        let mut left = false;
        for index in on_it {
            let pod = self.pods[index].1.clone();
            let held = self
                .budgets
                .iter()
                .filter(|budget| budget.namespace == pod.namespace && selects(&budget.selector, &pod.labels))
                .any(|budget| budget.disruptions_allowed <= 0);
            if held {
                left = true;
                refused.push(format!(
                    "error when evicting pods/\"{}\" -n \"{}\" (will retry after 5s): Cannot evict pod as it would \
                     violate the pod's disruption budget.\n",
                    pod.name, pod.namespace
                ));
            } else {
                self.reschedule(index);
            }
        }
        if left {
            refused.push(format!(
                "error: unable to drain node \"{node}\" due to error: global timeout reached: 1s, continuing command...\n"
            ));
            return ended(1, "", &refused.concat());
        }
        ended(0, &format!("node/{node} drained\n"), "")
    }

    /// Whether nothing holds a pod of this node.
    fn drains_freely(&self, node: &str) -> bool {
        !self.pods.iter().any(|(on, pod)| {
            let held = |budget: &Budget| {
                budget.namespace == pod.namespace
                    && selects(&budget.selector, &pod.labels)
                    && budget.disruptions_allowed <= 0
            };
            on == node && would_move(pod) && self.budgets.iter().any(held)
        })
    }

    fn existing(&mut self, node: &str) -> Answer<&mut KubeNode> {
        self.nodes
            .get_mut(node)
            .ok_or_else(|| error(KubeErrorKind::NotFound, format!("nodes \"{node}\" not found")))
    }
}

fn ended(code: u32, stdout: &str, stderr: &str) -> Output {
    Output {
        exit: Exit::Exited(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    }
}

#[async_trait]
impl Kube for World {
    async fn nodes(&self, via: &Via) -> Answer<Vec<KubeNode>> {
        self.reads(via, "nodes", |state| Ok(state.nodes.values().cloned().collect()))
            .await
    }

    async fn pods_on(&self, via: &Via, node: &str) -> Answer<Vec<Pod>> {
        self.reads(via, "pods_on", |state| {
            Ok(state
                .pods
                .iter()
                .filter(|(on, _)| on == node)
                .map(|(_, pod)| pod.clone())
                .collect())
        })
        .await
    }

    async fn budgets(&self, via: &Via) -> Answer<Vec<Budget>> {
        self.reads(via, "budgets", |state| Ok(state.budgets.clone()))
            .await
    }

    async fn volume_attachments(&self, via: &Via) -> Answer<Vec<VolumeAttachment>> {
        self.reads(via, "volume_attachments", |state| Ok(state.attachments.clone()))
            .await
    }

    async fn cordon(&self, via: &Via, node: &str) -> Answer<()> {
        self.changes(via, &format!("cordon {node}"), |state| {
            let already = std::mem::replace(&mut state.existing(node)?.unschedulable, true);
            state.did(format!(
                "cordon {node}{}",
                if already { " (already)" } else { "" }
            ));
            Ok(())
        })
        .await
    }

    async fn uncordon(&self, via: &Via, node: &str) -> Answer<()> {
        self.changes(via, &format!("uncordon {node}"), |state| {
            let cordoned = std::mem::replace(&mut state.existing(node)?.unschedulable, false);
            state.did(format!(
                "uncordon {node}{}",
                if cordoned { "" } else { " (already)" }
            ));
            Ok(())
        })
        .await
    }

    async fn start_drain(&self, via: &Via, key: &RunKey, node: &str, timeout_secs: u64) -> Answer<RunState> {
        let now = self.now();
        self.changes(via, &format!("start_drain {node}"), |state| {
            if let Some(run) = state.runs.get(&run_name(key)) {
                return Ok(run.state.clone());
            }
            if state
                .runs
                .values()
                .any(|run| run.node == node && matches!(run.state, RunState::Running { .. }))
            {
                state
                    .violations
                    .push(format!("a second drain of {node} beside the first"));
            }
            state.did(format!("drain {node} --timeout={timeout_secs}s"));
            let takes = if state.drains_freely(node) {
                2
            } else {
                timeout_secs
            };
            let hangs = state.hanging.contains(node);
            let run = Run {
                node: node.to_owned(),
                state: RunState::Running { since: now },
                takes: Duration::from_secs(if hangs { 1_000_000 } else { takes }),
            };
            state.runs.insert(run_name(key), run);
            Ok(RunState::Running { since: now })
        })
        .await
    }

    async fn ask_drain(&self, via: &Via, key: &RunKey) -> Answer<RunState> {
        let now = self.now();
        self.reads(via, "ask_drain", |state| Ok(finish(state, key, now)))
            .await
    }

    async fn follow_drain(&self, via: &Via, key: &RunKey, limit: Duration) -> Answer<RunState> {
        let (takes, since) = {
            let state = self.state();
            let run = state.runs.get(&run_name(key));
            (
                run.map_or(Duration::ZERO, |run| run.takes),
                run.map(|run| run.state.clone()),
            )
        };
        if let Some(RunState::Running { since }) = since {
            let left = crate::domain::job::time_left(self.now(), since + takes);
            self.advance(left.min(limit));
        }
        let now = self.now();
        self.reads(via, "follow_drain", |state| Ok(finish(state, key, now)))
            .await
    }

    async fn stop_drain(&self, via: &Via, key: &RunKey) -> Answer<RunState> {
        let now = self.now();
        self.changes(via, "stop_drain", |state| Ok(stopped(state, key, now)))
            .await
    }

    async fn evict(&self, via: &Via, namespace: &str, name: &str) -> Answer<Eviction> {
        self.changes(via, "evict", |state| {
            let found = (0..state.pods.len())
                .find(|i| state.pods[*i].1.name == name && state.pods[*i].1.namespace == namespace);
            if let Some(index) = found {
                state.reschedule(index);
            }
            state.did(format!("evict {namespace}/{name}"));
            Ok(Eviction::Accepted)
        })
        .await
    }

    async fn delete_node(&self, via: &Via, node: &str) -> Answer<()> {
        self.changes(via, &format!("delete_node {node}"), |state| {
            if state.nodes.remove(node).is_some() {
                let moving = state
                    .pods
                    .iter()
                    .filter(|(on, pod)| on == node && would_move(pod))
                    .count();
                if moving > 0 {
                    state
                        .violations
                        .push(format!("{node} was deleted with {moving} pods on it"));
                }
                state.pods.retain(|(on, _)| on != node);
                state.did(format!("delete node {node}"));
            }
            Ok(())
        })
        .await
    }

    async fn join_command(&self, via: &Via) -> Answer<SecretString> {
        self.changes(via, "join_command", |_| {
            Ok(
                "kubeadm join 10.1.1.1:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash \
                sha256:00ff"
                    .into(),
            )
        })
        .await
    }

    async fn kubeconfig(&self, via: &Via) -> Answer<SecretString> {
        self.reads(via, "kubeconfig", |_| Ok("kind: Config".into())).await
    }
}

/// Ends a drain before its time.
fn stopped(state: &mut State, key: &RunKey, now: Timestamp) -> RunState {
    let Some(run) = state.runs.get_mut(&run_name(key)) else {
        return RunState::NotStarted;
    };
    if let RunState::Running { since } = run.state {
        let output = Output {
            exit: Exit::Signaled("TERM".to_owned()),
            stdout: String::new(),
            stderr: "the API does not answer\n".to_owned(),
        };
        run.state = RunState::Ended {
            since,
            at: now,
            output,
        };
    }
    run.state.clone()
}

/// A drain ends when its time has passed.
fn finish(state: &mut State, key: &RunKey, now: Timestamp) -> RunState {
    let Some(run) = state.runs.get(&run_name(key)).cloned() else {
        return RunState::NotStarted;
    };
    let RunState::Running { since } = run.state else {
        return run.state;
    };
    if now < since + run.takes {
        return run.state;
    }
    let output = state.drain(&run.node);
    let end = RunState::Ended {
        since,
        at: now,
        output,
    };
    if let Some(run) = state.runs.get_mut(&run_name(key)) {
        run.state = end.clone();
    }
    end
}
