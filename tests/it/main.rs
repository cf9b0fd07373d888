//! The service end to end, as its users meet it: `cksd up` as a process of its own, requests signed over HTTP,
//! real SSH, real kubectl, real Postgres, the lab's cloud and nodes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails here"
)]

mod crash;
mod input;
mod reports;
mod scale;
mod secrets;
mod support;
