//! `cksd check`: judges the invariants of `behaviour.md` 14 from database, cloud and cluster.
//!
//! I1 to I4, I6 and I10. I5 and I7 to I9 need the nodes' journals; the tests judge them.

use serde::Serialize;

use crate::db::DbError;
use crate::db::checks::{self, ClusterRow, FailedJob, OpenLedger};
use crate::domain::cluster::State;
use crate::domain::id::ClusterId;
use crate::domain::plan::resolve::{NodeWitness, SSH_PORT};
use crate::observe::{Eyes, Kubernetes, Observed};

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// `I1` to `I10`.
    pub invariant: &'static str,
    /// The cluster's name, or the job.
    pub subject: String,
    /// What is wrong.
    pub text: String,
}

/// What a check found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Clusters that were judged.
    pub clusters: Vec<String>,
    /// What is broken.
    pub violations: Vec<Violation>,
    /// What could not be judged, and why.
    pub not_judged: Vec<String>,
    /// Left to the background, each by name: no violation.
    pub leftovers: Vec<String>,
}

/// Judges all clusters.
///
/// # Errors
/// The database gave no answer.
pub async fn check(eyes: &Eyes) -> Result<Report, DbError> {
    let mut conn = eyes.pool.acquire().await?;
    let clusters = checks::clusters(&mut conn).await?;
    let ledger = checks::open_ledger(&mut conn).await?;
    let stray = checks::stray_rules(&mut conn).await?;
    let failed = checks::failed_jobs(&mut conn).await?;
    drop(conn);
    let mut report = Report::default();
    report.violations.extend(failed.iter().flat_map(judge_failure));
    for cluster in &clusters {
        report.clusters.push(cluster.name.clone());
        report.violations.extend(judge_rows(cluster));
        let open: Vec<&OpenLedger> = ledger
            .iter()
            .filter(|row| row.cluster_key == cluster.key)
            .collect();
        judge_ledger(cluster, &open, &mut report);
        for (_, vm, place) in stray.iter().filter(|(key, _, _)| *key == cluster.key) {
            if !is_leftover(&open, &vm.to_string()) && !cluster.live_job {
                report.violations.push(violation(
                    "I4",
                    cluster,
                    format!("rule {place} leads to VM {vm}, which is no member"),
                ));
            }
        }
        if cluster.live_job {
            report
                .not_judged
                .push(format!("{}: a job is at work", cluster.name));
            continue;
        }
        match eyes.look(ClusterId(cluster.id)).await {
            Ok(seen) => judge_world(cluster, &seen, &open, &mut report),
            Err(error) => report.not_judged.push(format!("{}: {error}", cluster.name)),
        }
    }
    Ok(report)
}

fn violation(invariant: &'static str, cluster: &ClusterRow, text: String) -> Violation {
    Violation {
        invariant,
        subject: cluster.name.clone(),
        text,
    }
}

/// I1 and the counted half of I2.
fn judge_rows(cluster: &ClusterRow) -> Vec<Violation> {
    let mut found = Vec::new();
    let transitional = cluster.state.parse::<State>().is_ok_and(State::is_transitional);
    if transitional && !cluster.live_job {
        found.push(violation(
            "I1",
            cluster,
            format!("it is {} and no job owns it", cluster.state),
        ));
    }
    let counts = (cluster.node_count, cluster.control_count, cluster.etcd_count);
    if counts != cluster.members && !cluster.live_job {
        found.push(violation(
            "I2",
            cluster,
            format!(
                "its row counts {} workers, {} control nodes and {} etcd nodes, its map has {}, {} and {}",
                counts.0, counts.1, counts.2, cluster.members.0, cluster.members.1, cluster.members.2
            ),
        ));
    }
    found
}

/// A ledger row of an ended job must be a leftover, which the background owns; the script rows of an unfinished
/// upgrade stay until it is finished.
fn judge_ledger(cluster: &ClusterRow, open: &[&OpenLedger], report: &mut Report) {
    for row in open {
        let what = format!("{}: {} {}", cluster.name, row.kind, row.subject);
        if row.leftover {
            report.leftovers.push(what);
        } else if row.kind != "script" && !cluster.live_job {
            let invariant = if row.kind == "cordon" { "I3" } else { "I4" };
            let text = format!("{} of {} is accounted for by nobody", row.kind, row.subject);
            report.violations.push(violation(invariant, cluster, text));
        }
    }
}

fn is_leftover(open: &[&OpenLedger], subject: &str) -> bool {
    open.iter().any(|row| row.leftover && row.subject == subject)
}

/// I6: a failure is told once, with the words of its result. I10: a refused request changed nothing.
fn judge_failure(job: &FailedJob) -> Vec<Violation> {
    let mut found = Vec::new();
    let subject = format!("{} {}", job.command, job.id);
    let text = job
        .result
        .as_ref()
        .and_then(|result| result.get("errortext"))
        .and_then(|text| text.as_str());
    if text.is_none_or(str::is_empty) {
        let text = "it failed without an error text".to_owned();
        found.push(Violation {
            invariant: "I6",
            subject: subject.clone(),
            text,
        });
    } else if job.told != 1 || job.errors != 1 {
        let text = format!(
            "{} ERROR events tell of it, {} with its error text; one should",
            job.errors, job.told
        );
        found.push(Violation {
            invariant: "I6",
            subject: subject.clone(),
            text,
        });
    }
    if !job.has_steps && (job.has_history || job.has_ledger) {
        let text = "it was refused, and yet a state or the ledger shows it".to_owned();
        found.push(Violation {
            invariant: "I10",
            subject,
            text,
        });
    }
    found
}

/// What only the world shows: cores and memory (I2), cordons (I3), what removed nodes left (I4).
fn judge_world(cluster: &ClusterRow, seen: &Observed, open: &[&OpenLedger], report: &mut Report) {
    let all_shown = seen.machines.len() == seen.members.len();
    let cores: i64 = seen.machines.iter().map(|machine| machine.cpu_number).sum();
    let memory: i64 = seen.machines.iter().map(|machine| machine.memory_mb).sum();
    if all_shown && (cores, memory) != (cluster.cores, cluster.memory_mb) {
        report.violations.push(violation(
            "I2",
            cluster,
            format!(
                "its row has {} cores and {} MB, its machines have {cores} and {memory}",
                cluster.cores, cluster.memory_mb
            ),
        ));
    }
    for rule in &seen.forwarding {
        let stranger = rule
            .vm_id
            .filter(|vm| !seen.members.iter().any(|member| member.vm_id == *vm));
        if let Some(vm) = stranger
            && rule.private_port == SSH_PORT
            && !rule.revoked
            && open
                .iter()
                .any(|row| row.subject == vm.to_string() && !row.leftover)
        {
            let text = format!(
                "rule {}:{} still leads to the removed VM {vm}",
                rule.address, rule.public_port
            );
            report.violations.push(violation("I4", cluster, text));
        }
    }
    match &seen.kubernetes {
        Ok(kubernetes) => judge_nodes(cluster, kubernetes, open, report),
        Err(reason) if cluster.state == "Stopped" => {
            tracing::debug!("{}: Kubernetes is off: {reason}", cluster.name);
        }
        Err(reason) => report
            .not_judged
            .push(format!("{}: Kubernetes: {reason}", cluster.name)),
    }
}

fn judge_nodes(cluster: &ClusterRow, kubernetes: &Kubernetes, open: &[&OpenLedger], report: &mut Report) {
    for node in &kubernetes.nodes {
        let member = kubernetes
            .resolved
            .iter()
            .find(|one| one.node.name() == Some(node.name.as_str()));
        if member.is_none() {
            let text = format!("Kubernetes node {} belongs to no member", node.name);
            report.violations.push(violation("I4", cluster, text));
        }
        let cordon = open
            .iter()
            .find(|row| row.kind == "cordon" && row.subject == node.name);
        if node.unschedulable && cordon.is_some_and(|row| !row.leftover) {
            let text = format!(
                "node {} is still cordoned by an operation that has ended",
                node.name
            );
            report.violations.push(violation("I3", cluster, text));
        }
    }
    for member in &kubernetes.resolved {
        if matches!(member.node, NodeWitness::Gone(_)) {
            report
                .not_judged
                .push(format!("{}: node {} is gone", cluster.name, member.node_name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn row() -> ClusterRow {
        ClusterRow {
            key: 1,
            id: Uuid::nil(),
            name: "blue".to_owned(),
            state: "Running".to_owned(),
            node_count: 2,
            control_count: 1,
            etcd_count: 0,
            cores: 6,
            memory_mb: 12288,
            live_job: false,
            members: (2, 1, 0),
        }
    }

    fn failed() -> FailedJob {
        FailedJob {
            id: Uuid::nil(),
            command: "scaleKubernetesCluster".to_owned(),
            result: Some(serde_json::json!({ "errorcode": 530, "errortext": "no" })),
            has_steps: true,
            has_history: true,
            has_ledger: false,
            told: 1,
            errors: 1,
        }
    }

    fn names(found: &[Violation]) -> Vec<&str> {
        found.iter().map(|violation| violation.invariant).collect()
    }

    #[test]
    fn a_healthy_row_breaks_nothing() {
        assert_eq!(judge_rows(&row()), Vec::new());
        assert_eq!(judge_failure(&failed()), Vec::new());
    }

    #[test]
    fn a_state_that_nobody_owns_breaks_i1() {
        let stuck = ClusterRow {
            state: "Scaling".to_owned(),
            ..row()
        };
        assert_eq!(names(&judge_rows(&stuck)), ["I1"]);
        assert_eq!(
            judge_rows(&ClusterRow {
                live_job: true,
                ..stuck
            }),
            Vec::new()
        );
    }

    #[test]
    fn counts_that_differ_from_the_map_break_i2() {
        assert_eq!(
            names(&judge_rows(&ClusterRow {
                node_count: 3,
                ..row()
            })),
            ["I2"]
        );
    }

    #[test]
    fn a_failure_that_is_told_twice_or_never_breaks_i6() {
        assert_eq!(names(&judge_failure(&FailedJob { told: 0, ..failed() })), ["I6"]);
        assert_eq!(
            names(&judge_failure(&FailedJob {
                told: 2,
                errors: 2,
                ..failed()
            })),
            ["I6"]
        );
    }

    #[test]
    fn a_refusal_that_changed_a_state_breaks_i10() {
        assert_eq!(
            names(&judge_failure(&FailedJob {
                has_steps: false,
                ..failed()
            })),
            ["I10"]
        );
    }

    #[test]
    fn a_cordon_that_nobody_accounts_for_breaks_i3_and_a_leftover_does_not() {
        let mine = OpenLedger {
            cluster_key: 1,
            kind: "cordon".to_owned(),
            subject: "wk-1".to_owned(),
            leftover: false,
        };
        let theirs = OpenLedger {
            leftover: true,
            ..mine.clone()
        };
        let mut report = Report::default();
        judge_ledger(&row(), &[&mine, &theirs], &mut report);
        assert_eq!(names(&report.violations), ["I3"]);
        assert_eq!(report.leftovers, ["blue: cordon wk-1"]);
    }
}
