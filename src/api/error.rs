//! Errors of requests: the only place where codes are chosen.

use std::error::Error;

use crate::db::DbError;
use crate::domain::account::AccountRole;
use crate::domain::plan::admission::{MalformedRequest, ScaleRefusal};
use crate::domain::settings::InvalidValue;
use crate::protocol::{Code, CsCode, Fault};

/// What a caller who is no administrator reads of an unexpected error.
const HIDDEN: &str = "Internal error executing command, please contact your system administrator";

/// A request that failed: what the caller reads, and what only the log has.
#[derive(Debug)]
pub struct ApiError {
    fault: Fault,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl ApiError {
    /// An unexpected error of our own.
    pub fn internal(source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            fault: Fault::new(Code::Internal, CsCode::CloudRuntime, chain(&source)),
            source: Some(Box::new(source)),
        }
    }

    /// What this caller reads. The text of an unexpected error is for administrators only.
    #[must_use]
    pub fn fault_for(&self, role: Option<AccountRole>) -> Fault {
        let hides = self.source.is_some() && self.fault.code() == Code::Internal;
        if hides && role != Some(AccountRole::Admin) {
            return Fault::new(Code::Internal, CsCode::CloudRuntime, HIDDEN);
        }
        self.fault.clone()
    }

    /// Logs the error once, by whose mistake it is.
    pub fn log(&self, command: &str) {
        let (code, text) = (self.fault.code().number(), self.fault.text());
        if let Some(source) = &self.source {
            tracing::error!(command, code, error = %chain(source.as_ref()), "request failed");
        } else {
            tracing::info!(command, code, text, "request refused");
        }
    }
}

/// An error with all that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        Self { fault, source: None }
    }
}

impl From<DbError> for ApiError {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Unavailable(_) => Self {
                fault: Fault::new(
                    Code::Unavailable,
                    CsCode::ServerApi,
                    "the service cannot reach its database now: try again",
                ),
                source: Some(Box::new(error)),
            },
            DbError::Driver(_)
            | DbError::Inconsistent { .. }
            | DbError::Missing { .. }
            | DbError::Illegal(_)
            | DbError::Sealed { .. } => Self::internal(error),
        }
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        DbError::from(error).into()
    }
}

impl From<MalformedRequest> for ApiError {
    fn from(error: MalformedRequest) -> Self {
        Fault::invalid(error.to_string()).into()
    }
}

impl From<InvalidValue> for ApiError {
    fn from(error: InvalidValue) -> Self {
        Fault::invalid(error.to_string()).into()
    }
}

/// The code of a job that is born failed. CloudStack's command turns each of these into 530.
#[must_use]
pub fn code_of_refusal(refusal: &ScaleRefusal) -> Code {
    match refusal {
        ScaleRefusal::External { .. }
        | ScaleRefusal::NoVersion { .. }
        | ScaleRefusal::Busy { .. }
        | ScaleRefusal::WrongState { .. }
        | ScaleRefusal::Stopped { .. }
        | ScaleRefusal::UnfinishedUpgrade { .. }
        | ScaleRefusal::TooLarge { .. }
        | ScaleRefusal::NotMember { .. }
        | ScaleRefusal::NotWorkers { .. }
        | ScaleRefusal::AllWorkers { .. }
        | ScaleRefusal::NodesWithOffering
        | ScaleRefusal::CustomOffering { .. }
        | ScaleRefusal::SmallOffering { .. }
        | ScaleRefusal::ShrinksOffering { .. }
        | ScaleRefusal::Template { .. }
        | ScaleRefusal::CloudAway { .. } => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_away_is_503_for_everybody() {
        let error = ApiError::from(sqlx::Error::PoolTimedOut);
        for role in [None, Some(AccountRole::User), Some(AccountRole::Admin)] {
            assert_eq!(
                error.fault_for(role).body().to_string(),
                r#"{"uuidList":[],"errorcode":503,"cserrorcode":9999,"errortext":"the service cannot reach its database now: try again"}"#
            );
        }
    }

    #[test]
    fn an_unexpected_error_is_told_to_administrators_only() {
        let error = ApiError::from(DbError::Missing {
            table: "account",
            row: "7".to_owned(),
        });
        let text = |role| error.fault_for(role).text().to_owned();
        assert_eq!(text(Some(AccountRole::Admin)), "account has no row 7");
        assert_eq!(text(Some(AccountRole::DomainAdmin)), HIDDEN);
        assert_eq!(text(None), HIDDEN);
        assert_eq!(error.fault_for(None).code().number(), 530);
    }

    #[test]
    fn a_malformed_request_is_431() {
        let fault = ApiError::from(MalformedRequest::NoNodes).fault_for(None);
        assert_eq!(
            (fault.code().number(), fault.cs_code().map(CsCode::number)),
            (431, Some(4350))
        );
    }
}
