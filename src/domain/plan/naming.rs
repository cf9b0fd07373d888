//! Names of the machines that we make (`cks-facts.md` 3.0), so that a machine whose answer was lost is found
//! by its name.

use jiff::Timestamp;
use uuid::Uuid;

/// Longest prefix of a machine's name.
const PREFIX_LENGTH: usize = 43;
/// Longest DNS label.
const LABEL_LENGTH: usize = 63;

/// The prefix of the names of a cluster's machines: its name in lower case when that is a DNS label, else
/// `k8s-` with what is left of it, or with an id when nothing is left.
#[must_use]
pub fn prefix(cluster_name: &str, nothing_left: Uuid) -> String {
    let lower = cluster_name.to_lowercase();
    let name = if is_label(&lower) {
        lower
    } else {
        let kept: String = lower
            .chars()
            .filter(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '-')
            .collect();
        let kept = kept.trim_matches('-');
        if kept.is_empty() {
            format!("k8s-{nothing_left}")
        } else {
            format!("k8s-{kept}")
        }
    };
    let cut: String = name.chars().take(PREFIX_LENGTH).collect();
    cut.trim_end_matches('-').to_owned()
}

/// The names of `count` new workers. The time makes them unique; machines of one plan count on from it.
#[must_use]
pub fn workers(prefix: &str, now: Timestamp, count: usize) -> Vec<String> {
    (0..count)
        .map(|offset| {
            let millis = now
                .as_millisecond()
                .saturating_add(i64::try_from(offset).unwrap_or(0));
            format!("{prefix}-node-{millis:x}")
        })
        .collect()
}

/// Whether a text is a DNS label (RFC 1123): what may be a host name, and a word of a command line.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty()
        && text.len() <= LABEL_LENGTH
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether a text may be a Kubernetes node's name: DNS labels with dots between.
#[must_use]
pub fn is_node_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_label_is_the_prefix_in_lower_case() {
        assert_eq!(prefix("Pin-AS", Uuid::nil()), "pin-as");
    }

    #[test]
    fn other_characters_are_left_out_and_the_prefix_says_so() {
        assert_eq!(prefix("Blue Cluster!", Uuid::nil()), "k8s-bluecluster");
        assert_eq!(prefix("-edge-", Uuid::nil()), "k8s-edge");
    }

    #[test]
    fn a_name_of_nothing_usable_becomes_an_id() {
        let id = Uuid::from_u128(7);
        assert_eq!(prefix("日本", id), format!("k8s-{id}"));
    }

    #[test]
    fn a_long_name_is_cut_and_every_machine_name_stays_a_label() {
        let long = prefix(&"a".repeat(63), Uuid::nil());
        assert_eq!(long.len(), 43);
        let names = workers(&long, "2026-11-30T12:00:00Z".parse().unwrap(), 3);
        assert!(names.iter().all(|name| is_label(name)), "{names:?}");
    }

    #[test]
    fn names_of_one_plan_differ() {
        let names = workers("blue", Timestamp::from_millisecond(0x19a_bcde_f012).unwrap(), 2);
        assert_eq!(names, ["blue-node-19abcdef012", "blue-node-19abcdef013"]);
    }

    #[test]
    fn what_is_not_a_label_is_refused() {
        for bad in ["", "-a", "a-", "A", "a b", "a;rm", "$(x)", &"a".repeat(64)] {
            assert!(!is_label(bad), "{bad}");
        }
        assert!(is_node_name("wk-1.example.org"));
        assert!(!is_node_name("wk-1..org"));
    }
}
