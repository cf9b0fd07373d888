//! The double of commands on nodes.

use std::time::Duration;

use async_trait::async_trait;

use super::faults::Mode;
use super::world::{ADDRESS, State, World};
use crate::ports::fault::{Effect, Retry};
use crate::ports::shell::{
    Access, Command, Exit, Fence, NodeShell, NodeTarget, Output, RunKey, RunState, Scan, ShellError,
    ShellErrorKind,
};

type Answer<T> = Result<T, ShellError>;

fn failed(mode: Mode) -> ShellError {
    ShellError {
        text: format!("fault injected ({mode:?})"),
        kind: if mode.happens() {
            ShellErrorKind::Lost
        } else {
            ShellErrorKind::Away
        },
        effect: mode.effect(),
        retry: mode.retry(),
    }
}

fn away(text: String) -> ShellError {
    ShellError {
        text,
        kind: ShellErrorKind::Away,
        effect: Effect::DidNotHappen,
        retry: Retry::Soon,
    }
}

impl World {
    /// Whether a target leads to the machine that it names, as the rules stand now.
    pub(super) fn reach(&self, target: &NodeTarget) -> Result<(), String> {
        let mut state = self.state();
        let rule = state.forwards.iter().find(|rule| {
            !rule.revoked && rule.public_port == target.port && target.host == ADDRESS.to_string()
        });
        let Some(vm) = rule.and_then(|rule| rule.vm_id) else {
            return Err(format!("nothing listens on port {}", target.port));
        };
        if vm != target.vm_id {
            let text = format!("a command for {} came to {}", target.vm_name, state.name_of(vm));
            state.violations.push(text.clone());
            return Err(text);
        }
        let up = state.machines.get(&vm).is_some_and(|machine| {
            matches!(
                machine.state,
                crate::domain::observed::MachineState::Running
                    | crate::domain::observed::MachineState::Migrating
            )
        });
        if up {
            Ok(())
        } else {
            Err(format!("{} is off", target.vm_name))
        }
    }

    async fn shell<T>(
        &self,
        target: &NodeTarget,
        name: &str,
        apply: impl FnOnce(&mut State) -> Answer<T>,
    ) -> Answer<T> {
        self.pass(&format!("shell.{name}")).await;
        let reached = self.reach(target).map_err(away);
        self.call(
            &format!("shell.{name}"),
            |state| {
                reached?;
                apply(state)
            },
            failed,
        )
    }
}

#[async_trait]
impl NodeShell for World {
    async fn prove(&self, target: &NodeTarget) -> Answer<()> {
        self.shell(target, "prove", |_| Ok(())).await
    }

    async fn exec(
        &self,
        target: &NodeTarget,
        _: Fence,
        access: Access,
        command: &Command,
        _: Duration,
    ) -> Answer<Output> {
        let words = command.words.join(" ");
        let name = target.vm_name.clone();
        self.shell(target, "exec", |state| {
            if access == Access::Changes {
                state.did(format!("{name}: {words}"));
            }
            Ok(Output {
                exit: Exit::Exited(0),
                stdout: String::new(),
                stderr: String::new(),
            })
        })
        .await
    }

    async fn run(&self, target: &NodeTarget, _: Fence, _: &RunKey, _: &Command) -> Answer<RunState> {
        self.shell(target, "run", |_| Ok(RunState::NotStarted)).await
    }

    async fn ask(&self, target: &NodeTarget, _: Fence, _: &RunKey) -> Answer<RunState> {
        self.shell(target, "ask", |_| Ok(RunState::NotStarted)).await
    }

    async fn follow(&self, target: &NodeTarget, _: Fence, _: &RunKey, _: Duration) -> Answer<RunState> {
        self.shell(target, "follow", |_| Ok(RunState::NotStarted)).await
    }

    async fn stop(&self, target: &NodeTarget, _: Fence, _: &RunKey) -> Answer<RunState> {
        self.shell(target, "stop", |_| Ok(RunState::NotStarted)).await
    }

    async fn fence(&self, target: &NodeTarget) -> Answer<Option<Fence>> {
        self.shell(target, "fence", |_| Ok(None)).await
    }

    async fn take_over(&self, target: &NodeTarget, _: Fence) -> Answer<()> {
        self.shell(target, "take_over", |_| Ok(())).await
    }

    async fn scan(&self, _: &str, _: u16) -> Answer<Scan> {
        Err(away("nobody scans here".to_owned()))
    }
}
