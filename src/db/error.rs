//! What can go wrong with the database. A lost race is no error: see [`super::Cas`].

use crate::domain::cluster::IllegalTransition;

/// A failed use of the database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The database could not be reached, or did not answer in time; asking again may help.
    #[error("the database does not answer")]
    Unavailable(#[source] sqlx::Error),
    /// The database refused a statement.
    #[error("the database refused a statement")]
    Driver(#[source] sqlx::Error),
    /// A stored value that cannot be.
    #[error("table {table}, column {column}, row {row}: {what}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key.
        row: String,
        /// What is wrong with it.
        what: String,
    },
    /// A row that must be there is not.
    #[error("{table} has no row {row}")]
    Missing {
        /// The table.
        table: &'static str,
        /// The row's key.
        row: String,
    },
    /// A transition that the table of the state machine does not have.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// A sealed value could not be opened: another key, or a value that belongs to another row.
    #[error("a secret of table {table}, column {column}, row {row} cannot be opened with this key")]
    Sealed {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key.
        row: String,
    },
}

impl DbError {
    /// A stored value that cannot be.
    #[expect(clippy::needless_pass_by_value, reason = "callers read better")]
    pub fn inconsistent(
        table: &'static str,
        column: &'static str,
        row: impl ToString,
        what: impl ToString,
    ) -> Self {
        Self::Inconsistent {
            table,
            column,
            row: row.to_string(),
            what: what.to_string(),
        }
    }

    /// Whether asking again may help.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, DbError::Unavailable(_))
    }
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        let away = match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => true,
            // Class 08 connection, 53 resources, 57 operator intervention (shutdown, statement timeout),
            // 40 serialization and deadlock, 55P03 lock timeout, 25P03 idle in transaction.
            sqlx::Error::Database(db) => db.code().is_some_and(|code| {
                ["08", "53", "57", "40"]
                    .iter()
                    .any(|class| code.starts_with(class))
                    || code == "55P03"
                    || code == "25P03"
            }),
            _ => false,
        };
        if away {
            Self::Unavailable(error)
        } else {
            Self::Driver(error)
        }
    }
}
