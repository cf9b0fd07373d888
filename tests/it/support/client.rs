//! A client of the CloudStack API that signs by the published rules.

use std::path::Path;

use cksd::protocol::signature;
use serde_json::Value;

use super::wait_for;

/// Endpoint and keys.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) secret: String,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The whole reply of queryAsyncJobResult.
    pub(crate) job: Value,
}

impl Answer {
    pub(crate) fn succeeded(&self) -> bool {
        self.job["jobstatus"] == 1
    }

    /// The error text; fails on a job that did not fail.
    pub(crate) fn error(&self) -> String {
        assert_eq!(self.job["jobstatus"], 2, "{:#}", self.job);
        assert_eq!(self.job["jobresultcode"], self.job["jobresult"]["errorcode"]);
        self.job["jobresult"]["errortext"].as_str().unwrap().to_owned()
    }

    /// The cluster of the result; fails on a job that failed.
    pub(crate) fn cluster(&self) -> Value {
        assert!(self.succeeded(), "{:#}", self.job);
        self.job["jobresult"]["kubernetescluster"].clone()
    }
}

impl Client {
    pub(crate) fn unset() -> Self {
        Self {
            endpoint: String::new(),
            key: String::new(),
            secret: String::new(),
        }
    }

    pub(crate) fn from_env_file(path: &Path) -> Self {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let value = |name: &str| {
            let line = text.lines().find_map(|line| {
                line.trim_start_matches("export ")
                    .strip_prefix(name)?
                    .strip_prefix('=')
                    .map(str::to_owned)
            });
            line.unwrap_or_else(|| panic!("{} has no {name}", path.display()))
                .trim_matches(['"', '\''])
                .to_owned()
        };
        Self {
            endpoint: value("CLOUDSTACK_ENDPOINT"),
            key: value("CLOUDSTACK_KEY"),
            secret: value("CLOUDSTACK_SECRET"),
        }
    }

    /// Sends a signed request; status and body.
    pub(crate) async fn call(&self, command: &str, parameters: &[(&str, &str)]) -> (u16, Value) {
        cksd::app::install_crypto();
        let mut pairs: Vec<(String, String)> =
            [("command", command), ("response", "json"), ("apiKey", &self.key)]
                .iter()
                .chain(parameters)
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
        pairs.push(("signature".to_owned(), signature::sign(&pairs, &self.secret)));
        let reply = reqwest::Client::new()
            .post(&self.endpoint)
            .form(&pairs)
            .send()
            .await
            .unwrap();
        let status = reply.status().as_u16();
        let text = reply.text().await.unwrap();
        let body: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"));
        let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 1, "one top-level key: {text}");
        let inner = body.as_object().unwrap().values().next().unwrap().clone();
        (status, inner)
    }

    /// The value of a call that must be answered with 200.
    pub(crate) async fn ok(&self, command: &str, parameters: &[(&str, &str)]) -> Value {
        let (status, body) = self.call(command, parameters).await;
        assert_eq!(status, 200, "{command} {parameters:?}: {body:#}");
        body
    }

    /// Error code and text of a call that must be refused at once.
    pub(crate) async fn refused(&self, command: &str, parameters: &[(&str, &str)]) -> (u16, String) {
        let (status, body) = self.call(command, parameters).await;
        assert_ne!(status, 200, "{command} {parameters:?}: {body:#}");
        assert_eq!(body["errorcode"], status);
        (status, body["errortext"].as_str().unwrap().to_owned())
    }

    /// Submits; the job's id.
    pub(crate) async fn submit(&self, command: &str, parameters: &[(&str, &str)]) -> String {
        self.ok(command, parameters).await["jobid"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// The job as it is now.
    pub(crate) async fn query(&self, job: &str) -> Value {
        self.ok("queryAsyncJobResult", &[("jobid", job)]).await
    }

    /// Follows a job to its end.
    pub(crate) async fn follow(&self, job: &str) -> Answer {
        let job = wait_for("a job to end", async || {
            let seen = self.query(job).await;
            (seen["jobstatus"] != 0).then_some(seen)
        });
        Answer { job: job.await }
    }

    /// Submits and follows.
    pub(crate) async fn job(&self, command: &str, parameters: &[(&str, &str)]) -> Answer {
        let job = self.submit(command, parameters).await;
        self.follow(&job).await
    }
}
