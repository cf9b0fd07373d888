//! A node: a file per cluster that holds a fence and remembers every command. It outlives processes and the
//! database, as a real one does.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

/// What a node answered to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It did it.
    Acted,
    /// It had been done.
    Found,
    /// The fence refused an older epoch.
    Refused,
}

/// A line of a node's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) epoch: i64,
    pub(crate) job: String,
    pub(crate) step: String,
    pub(crate) answer: Answer,
}

pub(crate) fn file_of(folder: &Path, cluster: i64) -> PathBuf {
    folder.join("nodes").join(cluster.to_string())
}

/// A changing command: checks the fence, looks, acts and remembers, all under the node's lock. A holder of the
/// lock may be frozen, so it is never waited for inside the lock call.
pub(crate) async fn command(folder: &Path, cluster: i64, epoch: i64, job: &str, step: &str) -> Answer {
    let path = file_of(folder, cluster);
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .unwrap();
    let mut locked = loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => break locked,
            Err((back, _)) => {
                file = back;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    decide(&mut locked, epoch, job, step)
}

fn decide(file: &mut File, epoch: i64, job: &str, step: &str) -> Answer {
    let lines = read(file);
    let fence = lines
        .iter()
        .filter(|line| line.answer != Answer::Refused)
        .map(|line| line.epoch)
        .max();
    let done = lines
        .iter()
        .any(|line| line.answer == Answer::Acted && (line.job.as_str(), line.step.as_str()) == (job, step));
    let answer = if fence.is_some_and(|fence| epoch < fence) {
        Answer::Refused
    } else if done {
        Answer::Found
    } else {
        Answer::Acted
    };
    // One write, so that a kill leaves the whole line or none.
    file.write_all(format!("{epoch} {job} {step} {answer:?}\n").as_bytes())
        .unwrap();
    answer
}

/// All that a node remembers, in order.
pub(crate) fn memory(folder: &Path, cluster: i64) -> Vec<Line> {
    File::open(file_of(folder, cluster))
        .map(|mut file| read(&mut file))
        .unwrap_or_default()
}

fn read(file: &mut File) -> Vec<Line> {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            Line {
                epoch: words[0].parse().unwrap(),
                job: words[1].to_owned(),
                step: words[2].to_owned(),
                answer: match words[3] {
                    "Acted" => Answer::Acted,
                    "Found" => Answer::Found,
                    _ => Answer::Refused,
                },
            }
        })
        .collect()
}
