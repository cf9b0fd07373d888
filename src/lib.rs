//! cksd manages Kubernetes clusters whose nodes are virtual machines of a CloudStack-style cloud.
//!
//! Modules in the order of dependency: [`domain`] (pure decisions), [`ports`] (traits to the outside),
//! [`protocol`] (the CloudStack wire), [`db`] (all SQL), [`jobs`] (the engine), [`operations`] (what jobs do),
//! [`observe`] (one look at a whole cluster), [`background`] (periodic work), [`manage`] (import, check),
//! [`adapters`] (implementations of ports), [`api`] (HTTP), [`cli`], [`config`], [`app`] (the composition
//! root) and [`lab`] (a mini world that nothing of the service names).
//! `docs/ARCHITECTURE.md` has the table of who may use whom; `tests/tidy` keeps it.

pub mod adapters;
pub mod api;
pub mod app;
pub mod background;
pub mod cli;
pub mod config;
pub mod db;
pub mod domain;
pub mod jobs;
pub mod lab;
pub mod lifecycle;
pub mod manage;
pub mod observe;
pub mod operations;
pub mod ports;
pub mod protocol;
pub mod telemetry;
