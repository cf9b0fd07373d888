//! `behaviour.md` 5, BL-12, BL-24, BL-36 and BL-48, with the texts of real kubectl 1.32.

use super::*;
use crate::domain::observed::{Budget, MachineState, Pod};
use crate::domain::plan::fixtures::{budget, pod};
use crate::domain::plan::resolve::MachineWitness;

const MINUTE: Duration = Duration::from_mins(1);
const RUNNING: MachineWitness = MachineWitness::State(MachineState::Running);

fn judged(pods: &[Pod], budgets: &[Budget], text: &str) -> Class {
    judge(Judged {
        pods: Some(pods),
        budgets: Some(budgets),
        machine: &RUNNING,
        not_ready_throughout: false,
        text,
    })
}

#[test]
fn the_timeout_is_the_setting_cut_to_the_time_left() {
    assert_eq!(timeout(300, 700 * Duration::from_secs(1)), Some(300));
    assert_eq!(timeout(300, Duration::from_secs(40)), Some(40));
    assert_eq!(timeout(300, Duration::from_millis(40_900)), Some(40));
}

#[test]
fn a_setting_below_one_means_the_default() {
    assert_eq!(timeout(0, MINUTE * 60), Some(300));
    assert_eq!(timeout(-5, MINUTE * 60), Some(300));
}

#[test]
fn no_attempt_without_time() {
    assert_eq!(timeout(300, Duration::ZERO), None);
    assert_eq!(timeout(300, Duration::from_millis(900)), None);
}

#[test]
fn the_wait_for_an_attempt_is_a_minute_longer_than_its_timeout() {
    assert_eq!(patience(300), Duration::from_mins(6));
}

#[test]
fn no_retry_whose_wait_would_pass_the_deadline() {
    let wait = Duration::from_secs(30);
    assert!(may_retry(1, 3, &Class::Transient, wait, Duration::from_secs(31)));
    assert!(!may_retry(1, 3, &Class::Transient, wait, Duration::from_secs(30)));
    assert!(!may_retry(3, 3, &Class::Transient, wait, MINUTE));
}

#[test]
fn a_permanent_failure_ends_the_attempts_at_once() {
    let class = Class::Permanent(String::new());
    assert!(!may_retry(1, 3, &class, Duration::ZERO, MINUTE));
}

#[test]
fn a_budget_that_allows_nothing_blocks_and_is_named_with_what_it_needs_and_has() {
    let class = judged(
        &[pod("web-1", "web"), pod("api-1", "api")],
        &[budget("web", "web", 0)],
        "",
    );
    let expected = Blocked {
        pod: "shop/web-1".into(),
        budgets: vec![Holding {
            name: "shop/web".into(),
            needs: 4,
            has: 4,
        }],
    };
    assert_eq!(class, Class::Blocked(vec![expected]));
    assert_eq!(
        class.words(),
        "pod shop/web-1 is held by disruption budget shop/web (needs 4, has 4)"
    );
}

#[test]
fn two_budgets_on_one_pod_block_even_when_each_would_allow_it() {
    let class = judged(
        &[pod("web-0", "web")],
        &[budget("a", "web", 1), budget("b", "web", 1)],
        "",
    );
    assert!(
        class.words().contains("more than one disruption budget"),
        "{}",
        class.words()
    );
    assert!(class.words().contains("shop/a") && class.words().contains("shop/b"));
    assert!(!class.is_permanent(), "the normal attempts are made");
}

#[test]
fn a_budget_of_another_namespace_or_selector_does_not_count() {
    let mut elsewhere = budget("web", "web", 0);
    elsewhere.namespace = "other".into();
    let mut nothing = budget("none", "web", 0);
    nothing.selector = serde_json::Value::Null;
    let class = judged(
        &[pod("web-1", "web")],
        &[elsewhere, nothing, budget("api", "api", 0)],
        "",
    );
    assert_eq!(class, Class::Transient);
}

#[test]
fn a_running_bare_pod_is_permanent_and_a_finished_one_does_not_matter() {
    let mut bare = pod("bare", "x");
    bare.controller = None;
    let mut finished = bare.clone();
    finished.name = "done".into();
    finished.phase = "Succeeded".into();
    let class = judged(&[bare, finished.clone()], &[], "");
    assert!(class.is_permanent());
    assert!(class.words().ends_with("shop/bare"), "{}", class.words());
    assert!(!judged(&[finished], &[], "").is_permanent());
}

#[test]
fn daemon_set_pods_and_mirrors_are_ignored() {
    let mut daemon = pod("proxy", "web");
    daemon.controller = Some("DaemonSet".into());
    let mut mirror = pod("etcd", "web");
    mirror.controller = None;
    mirror.mirror = true;
    assert_eq!(
        judged(&[daemon, mirror], &[budget("web", "web", 0)], ""),
        Class::Transient
    );
}

#[test]
fn a_pod_that_does_not_end_is_slow_and_its_finalizer_is_named() {
    let mut ending = pod("fin", "x");
    ending.deleting_since = Some("2026-11-30T12:00:00Z".parse().unwrap());
    ending.finalizers = vec!["lab/hold".into()];
    let class = judged(&[ending], &[], "");
    assert!(matches!(class, Class::Slow(_)));
    assert!(
        class.words().contains("held by finalizer lab/hold"),
        "{}",
        class.words()
    );
}

#[test]
fn a_node_that_was_not_ready_for_a_whole_attempt_is_permanent_and_says_what_to_do() {
    let class = judge(Judged {
        pods: Some(&[pod("web-1", "web")]),
        budgets: Some(&[budget("web", "web", 0)]),
        machine: &RUNNING,
        not_ready_throughout: true,
        text: "",
    });
    assert!(class.is_permanent() && class.words().contains("stop the VM and request again"));
}

#[test]
fn a_machine_that_is_off_is_permanent() {
    let class = judge(Judged {
        pods: None,
        budgets: None,
        machine: &MachineWitness::State(MachineState::Stopped),
        not_ready_throughout: false,
        text: "",
    });
    assert!(class.is_permanent() && class.words().contains("Stopped"));
}

#[test]
fn text_decides_only_when_the_state_says_nothing() {
    let text = |text| {
        judge(Judged {
            pods: None,
            budgets: None,
            machine: &RUNNING,
            not_ready_throughout: false,
            text,
        })
    };
    let bare = "error: unable to drain node \"n\" due to error: cannot delete cannot delete Pods that declare no \
                controller (use --force to override): misc/bare, continuing command...";
    assert!(text(bare).is_permanent());
    assert!(text("error: unknown flag: --delete-emptydir-data").is_permanent());
    assert_eq!(
        text("Cannot evict pod as it would violate the pod's disruption budget."),
        Class::BlockedByText
    );
    assert_eq!(
        text(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        ),
        Class::BlockedByText
    );
    assert!(matches!(
        text(
            "error when waiting for pod \"fin\" in namespace \"misc\" to terminate: context deadline exceeded"
        ),
        Class::Slow(_)
    ));
    assert_eq!(
        text("Error from server: etcdserver: leader changed"),
        Class::Transient
    );
    assert_eq!(
        text("The connection to the server 127.0.0.1:6443 was refused"),
        Class::Transient
    );
}

#[test]
fn the_tail_is_at_most_2000_characters_from_the_start_of_a_line_to_the_last_line() {
    let line = "error when evicting pods/\"web-746cf68d9f-55kkx\" -n \"shop\" (will retry after 5s): Cannot evict pod";
    let long = format!("{}\n\n", vec![line; 40].join("\n"));
    let end = tail(&long);
    assert!(end.chars().count() <= TAIL_LENGTH && end.chars().count() > TAIL_LENGTH - line.len() - 1);
    assert!(end.starts_with("error when") && end.ends_with("evict pod"));
}

#[test]
fn a_short_text_is_its_own_tail_and_one_long_line_is_cut() {
    assert_eq!(tail("one\ntwo\n"), "one\ntwo");
    assert_eq!(tail(&"é".repeat(3000)).chars().count(), TAIL_LENGTH);
    let exact = format!("x\n{}", "y".repeat(TAIL_LENGTH));
    assert_eq!(tail(&exact).len(), TAIL_LENGTH);
}

#[test]
fn the_error_names_node_machine_attempts_and_cause_and_quotes_kubectl() {
    let failure = DrainFailure {
        node: "wk-3".into(),
        vm: "wk-3 (1000)".into(),
        attempts: 3,
        class: Some(judged(&[pod("web-1", "web")], &[budget("web", "web", 0)], "")),
        output: "evicting pod shop/web-1\nerror: unable to drain node \"wk-3\"\n".into(),
    };
    assert_eq!(
        failure_text(&failure),
        "unable to drain Kubernetes node: wk-3 on VM: wk-3 (1000): pod shop/web-1 is held by disruption budget \
         shop/web (needs 4, has 4) (3 attempts):\nevicting pod shop/web-1\nerror: unable to drain node \"wk-3\"\n"
    );
}
