//! The lab as a process of its own: started, found again, stopped.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::child::{Ending, Recorded};
use super::folder::{ClientEnv, Folder, FolderError};

/// How long a lab may take until it serves; a debug build on a busy machine takes seconds.
const START_LIMIT: Duration = Duration::from_mins(2);

/// How long a lab may take to save its world when it is told to end.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How often a start is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A lab that serves.
#[derive(Debug)]
pub struct LabProcess {
    process: Recorded,
    attached: bool,
}

/// Why there is no lab.
#[derive(Debug, thiserror::Error)]
pub enum LabProcessError {
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A program or a file.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// What went wrong.
        source: io::Error,
    },
    /// It ended, or does not serve.
    #[error("the lab {what}; the end of its log `{log}`: {end}")]
    NotServing {
        /// What it did instead.
        what: String,
        /// Its log.
        log: String,
        /// The log's end.
        end: String,
    },
}

impl LabProcess {
    /// Attaches to the living lab of `folder`, or starts one: a new world from `scenario`, or the saved one.
    pub async fn attach_or_start(folder: &Folder, scenario: &str) -> Result<Self, LabProcessError> {
        if let Some(process) = Recorded::living(&folder.lab_process()) {
            return Ok(Self {
                process,
                attached: true,
            });
        }
        // Written by the lab once it serves; an old one would be taken for the new one's.
        fs::remove_file(folder.lab_env()).ok();
        let mut child = Self::spawn(folder, scenario)?;
        let pid = child.id();
        // A record at once: a starter that is killed now leaves a lab that the next start finds.
        let process = Recorded::write(pid, &folder.lab_process()).map_err(|source| LabProcessError::Io {
            what: "recording the lab's process",
            source,
        })?;
        // Reaped in a thread of its own, or it would stay as a zombie when it ends before us.
        std::thread::spawn(move || child.wait().map(drop));
        let serving = tokio::time::timeout(START_LIMIT, async {
            loop {
                if folder.lab_env().exists() {
                    return Ok(());
                }
                if !process.is_alive() {
                    return Err("ended before it served".to_owned());
                }
                pause().await;
            }
        });
        match serving
            .await
            .unwrap_or_else(|_| Err(format!("did not serve within {} s", START_LIMIT.as_secs())))
        {
            Ok(()) => Ok(Self {
                process,
                attached: false,
            }),
            Err(what) => {
                process.stop(STOP_LIMIT).await;
                let log = log_of(folder);
                let text = fs::read_to_string(&log).unwrap_or_default();
                let end: Vec<&str> = text.lines().rev().take(5).collect();
                Err(LabProcessError::NotServing {
                    what,
                    log: log.display().to_string(),
                    end: end.into_iter().rev().collect::<Vec<_>>().join(" / "),
                })
            }
        }
    }

    fn spawn(folder: &Folder, scenario: &str) -> Result<std::process::Child, LabProcessError> {
        let failed = |what| move |source| LabProcessError::Io { what, source };
        let log = fs::File::create(log_of(folder)).map_err(failed("making the lab's log"))?;
        let errors = log.try_clone().map_err(failed("opening the lab's log twice"))?;
        let program = std::env::current_exe().map_err(failed("finding this program"))?;
        Command::new(program)
            .arg("lab")
            .arg("--data")
            .arg(folder.lab())
            .args(["--scenario", scenario])
            .arg("--env-file")
            .arg(folder.lab_env())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // A group of its own: Ctrl-C in the terminal reaches us only, and we stop the lab in order.
            .process_group(0)
            .spawn()
            .map_err(failed("starting the lab"))
    }

    /// Whether it lived before we came.
    #[must_use]
    pub fn attached(&self) -> bool {
        self.attached
    }

    /// Its pid.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns when the lab has ended, told to or not.
    pub async fn ended(&self) {
        self.process.ended().await;
    }

    /// Where its cloud is.
    pub fn cloud(folder: &Folder) -> Result<ClientEnv, FolderError> {
        let path = folder.lab_env();
        ClientEnv::read(&path)?.ok_or_else(|| FolderError::Changed {
            path: path.display().to_string(),
            problem: "it is not there although the lab serves".to_owned(),
        })
    }

    /// Tells it to save its world and end.
    pub async fn stop(self) {
        if self.process.stop(STOP_LIMIT).await == Ending::Killed {
            tracing::warn!("the lab did not end in time and was killed; it goes on from what it has saved");
        }
    }
}

/// Stops the living lab of `folder`, if there is one.
pub async fn stop_living(folder: &Folder) {
    if let Some(process) = Recorded::living(&folder.lab_process()) {
        process.stop(STOP_LIMIT).await;
    }
}

fn log_of(folder: &Folder) -> PathBuf {
    folder.path().join("lab.log")
}

#[expect(
    clippy::disallowed_methods,
    reason = "another process becomes ready; its file is all there is to see"
)]
async fn pause() {
    tokio::time::sleep(LOOK_AGAIN).await;
}
