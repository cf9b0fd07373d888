//! The operation harness: the engine on a real Postgres, with small stateful doubles of the ports.
//!
//! What this must not know: the lab, which is the other double and has real wires.
//!
//! [`world`] holds what cloud, Kubernetes and nodes share; [`cloud`], [`kube`] and [`shell`] are the ports on
//! it; [`faults`] names every call and can make any one of them fail in four ways.

mod bench;
mod cloud;
mod cloud_work;
mod faults;
mod harness;
mod judge;
mod kube;
mod seed;
mod shell;
mod stories;
mod things;
mod world;
