//! Why there is no private server, with what to do about it.

use std::io;

use super::OLDEST_MAJOR;

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No binaries.
    #[error("no Postgres server, {OLDEST_MAJOR} or newer, was found (looked in {looked}): {install}")]
    NoBinaries {
        /// Where it was looked.
        looked: String,
        /// What to do.
        install: String,
    },
    /// The folder holds the data of another major version.
    #[error(
        "`{folder}` holds the data of Postgres {stored}, and its binaries were not found: install Postgres \
         {stored}, or move the data with pg_dump, or start anew with --fresh"
    )]
    OtherMajor {
        /// The folder.
        folder: String,
        /// The version of the data.
        stored: u32,
    },
    /// Root may not run Postgres, and there is no other user.
    #[error(
        "Postgres does not run as root, and there is neither a user `postgres` nor `nobody`: useradd postgres"
    )]
    NoUser,
    /// A file or a program.
    #[error("{what}: {source}")]
    Io {
        /// What was done to what.
        what: String,
        /// What went wrong.
        source: io::Error,
    },
    /// `initdb` failed.
    #[error("initdb failed in `{folder}`: {output}")]
    Initdb {
        /// The folder.
        folder: String,
        /// What it printed.
        output: String,
    },
    /// The server ended, or does not answer.
    #[error("the Postgres in `{folder}` {what}; the end of its log: {log}")]
    NoAnswer {
        /// The folder.
        folder: String,
        /// What it did instead.
        what: String,
        /// The end of its log.
        log: String,
    },
}

impl PostgresError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
