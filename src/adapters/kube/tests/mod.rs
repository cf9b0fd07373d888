//! Tests of the Kubernetes port over a shell that answers from a list.
//!
//! What this must not know: SSH.

mod commands;
mod reading;
mod texts;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::KubectlOverShell;
use crate::domain::id::{InstallationId, VmId};
use crate::ports::fault::{Effect, Retry};
use crate::ports::kube::Via;
use crate::ports::shell::{
    Access, Command, Exit, Fence, NodeShell, NodeTarget, Output, RunKey, RunState, Scan, ShellError,
    ShellErrorKind,
};

/// A shell that remembers what it was asked and answers in turn.
#[derive(Default)]
pub(super) struct Scripted {
    asked: Mutex<Vec<(Access, Command)>>,
    answers: Mutex<VecDeque<Result<Output, ShellError>>>,
}

impl Scripted {
    pub(super) fn answering(answers: Vec<Result<Output, ShellError>>) -> Arc<Self> {
        Arc::new(Self {
            asked: Mutex::default(),
            answers: Mutex::new(answers.into()),
        })
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|(_, command)| command.words.join(" "))
            .collect()
    }

    pub(super) fn asked(&self) -> Vec<(Access, Command)> {
        self.asked.lock().unwrap().clone()
    }
}

pub(super) fn kube(shell: &Arc<Scripted>) -> KubectlOverShell {
    KubectlOverShell::new(Arc::<Scripted>::clone(shell))
}

pub(super) fn via() -> Via {
    Via {
        target: NodeTarget {
            vm_id: VmId(Uuid::from_u128(1)),
            vm_name: "control-1".into(),
            host: "127.0.0.1".into(),
            port: 2222,
            user: "cloud".into(),
            private_key: String::new().into(),
            host_keys: Vec::new(),
            addresses: Vec::new(),
        },
        fence: Fence {
            installation: InstallationId(Uuid::from_u128(2)),
            epoch: 3,
        },
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands in a list beside `broken`")]
pub(super) fn exited(code: u32, stdout: &str, stderr: &str) -> Result<Output, ShellError> {
    Ok(Output {
        exit: Exit::Exited(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    })
}

pub(super) fn broken(kind: ShellErrorKind, effect: Effect) -> Result<Output, ShellError> {
    Err(ShellError {
        text: "node control-1: something".into(),
        kind,
        effect,
        retry: Retry::Soon,
    })
}

#[async_trait]
impl NodeShell for Scripted {
    async fn prove(&self, _: &NodeTarget) -> Result<(), ShellError> {
        Ok(())
    }

    async fn exec(
        &self,
        _: &NodeTarget,
        _: Fence,
        access: Access,
        command: &Command,
        _: Duration,
    ) -> Result<Output, ShellError> {
        self.asked.lock().unwrap().push((access, command.clone()));
        self.answers.lock().unwrap().pop_front().unwrap()
    }

    async fn run(
        &self,
        _: &NodeTarget,
        _: Fence,
        _: &RunKey,
        command: &Command,
    ) -> Result<RunState, ShellError> {
        self.asked
            .lock()
            .unwrap()
            .push((Access::Changes, command.clone()));
        Ok(RunState::NotStarted)
    }

    async fn ask(&self, _: &NodeTarget, _: Fence, _: &RunKey) -> Result<RunState, ShellError> {
        Ok(RunState::NotStarted)
    }

    async fn follow(
        &self,
        _: &NodeTarget,
        _: Fence,
        _: &RunKey,
        _: Duration,
    ) -> Result<RunState, ShellError> {
        Ok(RunState::NotStarted)
    }

    async fn stop(&self, _: &NodeTarget, _: Fence, _: &RunKey) -> Result<RunState, ShellError> {
        Ok(RunState::NotStarted)
    }

    async fn fence(&self, _: &NodeTarget) -> Result<Option<Fence>, ShellError> {
        Ok(None)
    }

    async fn take_over(&self, _: &NodeTarget, _: Fence) -> Result<(), ShellError> {
        Ok(())
    }

    async fn scan(&self, _: &str, _: u16) -> Result<Scan, ShellError> {
        Ok(Scan {
            host_keys: Vec::new(),
            fingerprints: Vec::new(),
        })
    }
}
