//! The cloud port over the CloudStack API (`api-protocol.md` 1, 2, 3 and 5).
//!
//! CloudStack has no token by which a request that was sent twice is done once. When the answer to a submit is
//! lost, its job cannot be found again: the error says that the effect may have happened, and the caller looks at
//! the object (by the name that it chose, by the rule's ports, by the machine's state) before it asks again.
//!
//! What this must not know: the database, jobs.

mod calls;
mod lists;
mod read;
mod user_data;
mod wire;

#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::Value;

use self::calls::{member, understood};
use self::lists::{Lists, pair};
use self::wire::{Params, Wire};
use crate::domain::id::CloudJobId;
use crate::ports::cloud::{Cloud, CloudError, CloudErrorKind, Submitted};

/// How to reach the cloud.
#[derive(Debug, Clone)]
pub struct CloudOptions {
    /// Where its API is, for example `https://cloud.example/client/api`.
    pub endpoint: String,
    /// The API key.
    pub api_key: String,
    /// The secret key that belongs to it.
    pub secret_key: SecretString,
    /// How long one request may take.
    pub timeout: Duration,
    /// Certificates (PEM) that are trusted instead of the system's.
    pub ca_pem: Option<String>,
}

/// The cloud port over the CloudStack API.
pub struct CloudStackClient {
    wire: Wire,
    lists: Lists,
}

impl CloudStackClient {
    /// A client for these options. Nothing is asked of the cloud yet.
    ///
    /// # Errors
    /// What is wrong with the options, in words.
    #[expect(clippy::new_ret_no_self, reason = "callers hold the port")]
    pub fn new(options: CloudOptions) -> Result<Arc<dyn Cloud>, String> {
        Ok(Arc::new(Self {
            wire: Wire::new(options)?,
            lists: Lists::new(),
        }))
    }

    /// Submits a command; gives its job.
    async fn submit(&self, command: &str, params: Params) -> Result<CloudJobId, CloudError> {
        let answer = self.wire.call(command, &params).await?;
        member(command, &answer, "jobid")
    }

    /// Submits a command that makes something; gives that and the job.
    async fn create<T: FromStr>(&self, command: &str, params: Params) -> Result<Submitted<T>, CloudError> {
        let answer = self.wire.call(command, &params).await?;
        Ok(Submitted {
            id: member(command, &answer, "id")?,
            job: member(command, &answer, "jobid")?,
        })
    }

    async fn list<T>(
        &self,
        command: &str,
        object: &str,
        params: Params,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Vec<T>, CloudError> {
        let found = self.lists.either(&self.wire, command, object, &params).await?;
        found
            .iter()
            .map(|item| understood(command, object, read(item)))
            .collect()
    }

    async fn one<T>(
        &self,
        command: &str,
        object: &str,
        params: Params,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, CloudError> {
        let found = self.lists.one(&self.wire, command, object, params).await?;
        found
            .map(|item| understood(command, object, read(&item)))
            .transpose()
    }

    /// Templates and ISOs: what may be used; and for administrators, whom that filter does not show everything
    /// of others, all.
    async fn image<T>(
        &self,
        command: &str,
        object: &str,
        filter: &str,
        id: String,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, CloudError> {
        let params = |which: &str| vec![pair(filter, which), pair("id", id.clone())];
        let found = self.one(command, object, params("executable"), &read).await?;
        if found.is_some() {
            return Ok(found);
        }
        match self.one(command, object, params("all"), &read).await {
            // Only the root administrator may ask for all.
            Err(error)
                if matches!(
                    error.kind,
                    CloudErrorKind::Refused | CloudErrorKind::Answer(430..=432)
                ) =>
            {
                Ok(None)
            }
            other => other,
        }
    }
}
