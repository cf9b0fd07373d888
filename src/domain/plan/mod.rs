//! Decisions, made once, as plain functions from facts to a plan.
//!
//! What this must not know: how facts are gathered and how a plan is carried out.

pub mod admission;
