//! The state of a cluster changes in one place: `db::clusters`, by compare-and-set.

use crate::{files, report, source};

const TABLE: &str = "kubernetes_cluster";

/// Whether a statement writes the column `state` of the table `kubernetes_cluster`.
fn writes_state(statement: &str) -> bool {
    let words = statement
        .to_lowercase()
        .replace(['"', ','], " ")
        .replace('=', " = ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let is_write = |at: usize| {
        let update = words[at] == "update" && words.get(at + 1) == Some(&TABLE);
        let upsert = words[at] == "into"
            && words
                .get(at + 1)
                .is_some_and(|word| word.split('(').next() == Some(TABLE));
        update || upsert
    };
    (0..words.len()).filter(|&at| is_write(at)).any(|at| {
        let set = words[at..].iter().skip_while(|word| **word != "set");
        let assigned: Vec<&&str> = set.take_while(|word| **word != "where").collect();
        assigned
            .windows(2)
            .any(|pair| *pair[0] == "state" && *pair[1] == "=")
    })
}

#[test]
fn only_db_clusters_writes_the_state_of_a_cluster() {
    let mut wrong = Vec::new();
    for file in files::below("src", &[".rs"]) {
        let path = files::relative(&file);
        if source::is_test(&path) || path.starts_with("src/db/clusters") {
            continue;
        }
        for literal in source::read(&file).literals {
            if writes_state(&literal.text) {
                wrong.push(format!("{path}:{}: use `db::clusters::transition`", literal.line));
            }
        }
    }
    for file in files::below("src", &[".sql"]) {
        let path = files::relative(&file);
        if !path.starts_with("src/db/sql/clusters") && writes_state(&files::read(&file)) {
            wrong.push(format!("{path}: use `db::clusters::transition`"));
        }
    }
    report(
        "statements that write the column `state` of kubernetes_cluster",
        &wrong,
    );
}

#[test]
fn a_write_of_the_state_is_told_from_a_read() {
    assert!(writes_state(
        "UPDATE kubernetes_cluster SET generation = generation + 1, state=$2 WHERE id = $1"
    ));
    assert!(writes_state(
        "INSERT INTO kubernetes_cluster (id) VALUES ($1) ON CONFLICT DO UPDATE SET state = $2"
    ));
    assert!(!writes_state(
        "UPDATE kubernetes_cluster SET removed = now() WHERE state = 'Destroyed'"
    ));
    assert!(!writes_state("UPDATE kubernetes_cluster_vm_map SET state = 'x'"));
    assert!(!writes_state(
        "SELECT state FROM kubernetes_cluster WHERE id = $1"
    ));
}
