//! What an operation is to the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use sqlx::PgConnection;

use super::{OpCx, StepResult};
use crate::db::DbError;
use crate::domain::cluster::Event;
use crate::domain::job::Failure;

/// What a job does. First run, retry and resume after a crash are the same call of [`Operation::run`].
#[async_trait]
pub trait Operation: Send + Sync {
    /// The command whose jobs it runs, for example `scaleKubernetesCluster`.
    fn command(&self) -> &'static str;

    /// Runs from the journal on. Whatever it must give back it gives back itself, as journaled steps.
    async fn run(&self, cx: &OpCx) -> StepResult<Settlement>;

    /// How a job ends that is not run any more: five takeovers without a new step, or a failure that `run` let
    /// pass. It may look at the evidence, and changes nothing outside; what the job owes goes to the
    /// leftovers. If this fails as well, the job ends as [`Settlement::failed`].
    async fn abandon(&self, cx: &OpCx, why: &Failure) -> StepResult<Settlement> {
        let _ = cx;
        Ok(Settlement::failed(
            Transition::On(Event::OperationFailed),
            why.clone(),
        ))
    }
}

/// What happens to the cluster's state when a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// This event.
    On(Event),
    /// Back to the state in which the job found it.
    GivenBack,
    /// Nothing.
    Keep,
}

/// What happens to the record of an unfinished upgrade when a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpgradeRecord {
    /// It stays, if there is one.
    #[default]
    Keep,
    /// It goes, with its script rows.
    Drop,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// What happens to the cluster's state.
    pub transition: Transition,
    /// Why, for the history; in Alert it is stored with the cluster and shown.
    pub reason: Option<String>,
    /// The text of the Completed event, or the failure.
    pub outcome: Result<String, Failure>,
    /// What happens to the upgrade record.
    pub upgrade_record: UpgradeRecord,
}

impl Settlement {
    /// The operation reached its aim.
    pub fn succeeded(text: impl Into<String>) -> Self {
        Self {
            transition: Transition::On(Event::OperationSucceeded),
            reason: None,
            outcome: Ok(text.into()),
            upgrade_record: UpgradeRecord::Keep,
        }
    }

    /// It failed; the failure's text is the reason.
    #[must_use]
    pub fn failed(transition: Transition, failure: Failure) -> Self {
        Self {
            transition,
            reason: Some(failure.text.clone()),
            outcome: Err(failure),
            upgrade_record: UpgradeRecord::Keep,
        }
    }

    /// It failed, and everything is as it was.
    #[must_use]
    pub fn given_back(failure: Failure) -> Self {
        Self::failed(Transition::GivenBack, failure)
    }

    /// The same with another reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The same without the upgrade record.
    #[must_use]
    pub fn dropping_upgrade_record(mut self) -> Self {
        self.upgrade_record = UpgradeRecord::Drop;
        self
    }
}

/// Renders the result of a successful job, inside the settling transaction.
#[async_trait]
pub trait ResultView: Send + Sync {
    /// The whole `jobresult`, for example `{"kubernetescluster": {…, "operation": …}}`.
    async fn cluster(
        &self,
        conn: &mut PgConnection,
        cluster_key: i64,
        operation: &Value,
    ) -> Result<Value, DbError>;
}

/// The operations, by command.
#[derive(Clone, Default)]
pub struct Registry {
    by_command: BTreeMap<String, Arc<dyn Operation>>,
}

impl Registry {
    /// A registry of these.
    pub fn new(operations: impl IntoIterator<Item = Arc<dyn Operation>>) -> Self {
        Self {
            by_command: operations
                .into_iter()
                .map(|one| (one.command().to_owned(), one))
                .collect(),
        }
    }

    /// The operation of a command.
    #[must_use]
    pub fn get(&self, command: &str) -> Option<Arc<dyn Operation>> {
        self.by_command.get(command).cloned()
    }

    /// The commands.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.by_command.keys().cloned().collect()
    }
}
