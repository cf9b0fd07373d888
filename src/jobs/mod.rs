//! The engine: leases, steps, waiting, retry.
//!
//! What this must not know: any operation, the wire, any adapter.
//!
//! ## What excludes what
//! - The *lease* keeps two healthy workers from running one job: a claim takes only what is due, or what nobody
//!   has extended in time. All times are the database's.
//! - The *epoch*, a new number at each claim, keeps a worker that has lost its lease from writing: every write
//!   begins by locking the job's row under id, owner, epoch and an unexpired lease ([`crate::db::Fenced`]).
//!   Node commands carry the same number, and nodes refuse an older one.
//! - Neither stops a request that is already on its way to the cloud. So a step looks before it acts, what it
//!   makes is named by the plan, and the ledger row stands before the effect.
//! - One open job per cluster is a unique index, not a lock.
//!
//! ## Where to start
//! [`Operation`] is what there is to implement, [`OpCx`] what it gets, [`admission`] how a job comes to be.

pub mod admission;
mod cx;
pub mod faults;
mod journal;
mod lease;
mod operation;
mod run;
mod settle;
mod step;
mod stop;
pub mod testing;
#[cfg(test)]
mod tests;
mod worker;

pub use cx::{Begun, JobInfo, OpCx};
pub use operation::{Operation, Registry, ResultView, Settlement, Transition, UpgradeRecord};
pub use run::Stop;
pub use step::{StepError, StepResult, fail, retry, wait};
pub use worker::{Tuning, Worker, WorkerOptions};

pub use crate::domain::job::{EndReason, Failure};

/// The rows that an operation reads and writes by name, and nothing else of the database.
pub mod rows {
    pub use crate::db::cloud_objects::{CloudKind, CloudObject};
    pub use crate::db::clusters::{Counts, OfferingOf};
    pub use crate::db::details::{UPGRADE_SEMANTIC, UPGRADE_TARGET};
    pub use crate::db::ledger::{LedgerKind, LedgerRow};
    pub use crate::db::members::NewMember;
    pub use crate::db::rules::{ClusterRule, RuleKind, RulePurpose};
    pub use crate::db::ssh::SshIdentity;
    pub use crate::db::versions::SupportedVersion;
    pub use crate::db::{Fenced, FencedError, FencedTx};
}
