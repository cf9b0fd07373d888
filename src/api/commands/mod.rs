//! The commands: one file each, and one list that feeds dispatch, roles, listApis, OpenAPI and the docs.
//!
//! To add one: a file with its declaration and its `run`, a line in [`ALL`], then write the generated documents anew.
//!
//! What this must not know: how requests arrive and how replies are written.

mod get_kubernetes_cluster_config;
mod list_apis;
mod list_async_jobs;
mod list_capabilities;
mod list_configurations;
mod list_events;
mod list_kubernetes_clusters;
mod list_kubernetes_supported_versions;
mod query_async_job_result;
mod scale_kubernetes_cluster;
mod update_configuration;

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::context::Cx;
use super::{ApiError, ApiOptions};
use crate::protocol::Command;

/// What a command does.
pub type Run = for<'a> fn(&'a Cx) -> Pin<Box<dyn Future<Output = Result<Value, ApiError>> + Send + 'a>>;

/// A command with its declaration.
pub struct Entry {
    /// The declaration.
    pub command: Command,
    /// What it does.
    pub run: Run,
    /// Which switch offers it.
    pub part: Part,
}

/// Which switch offers a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The platform's: always there.
    Platform,
    /// The Kubernetes service's: there while the service is enabled.
    Kubernetes,
}

impl Entry {
    /// Whether this process offers the command.
    #[must_use]
    pub fn is_offered(&self, options: &ApiOptions) -> bool {
        options.service_enabled || self.part == Part::Platform
    }
}

/// Every command, by name.
pub static ALL: &[Entry] = &[
    get_kubernetes_cluster_config::ENTRY,
    list_apis::ENTRY,
    list_async_jobs::ENTRY,
    list_capabilities::ENTRY,
    list_configurations::ENTRY,
    list_events::ENTRY,
    list_kubernetes_clusters::ENTRY,
    list_kubernetes_supported_versions::ENTRY,
    query_async_job_result::ENTRY,
    scale_kubernetes_cluster::ENTRY,
    update_configuration::ENTRY,
];

/// The command of this name, in exactly this case.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.command.name == name)
}
