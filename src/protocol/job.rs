//! Asynchronous jobs on the wire (`api-protocol.md` 3).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::envelope::date;

/// `jobstatus`. A cancelled job is shown as failed, since clients wait for ever on 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// 0.
    Pending,
    /// 1.
    Succeeded,
    /// 2.
    Failed,
}

impl JobStatus {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            JobStatus::Pending => 0,
            JobStatus::Succeeded => 1,
            JobStatus::Failed => 2,
        }
    }

    /// The status of a number; anything above 1 is failed.
    #[must_use]
    pub const fn from_number(number: i64) -> JobStatus {
        match number {
            0 => JobStatus::Pending,
            1 => JobStatus::Succeeded,
            _ => JobStatus::Failed,
        }
    }
}

/// A job as queryAsyncJobResult and listAsyncJobs show it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReply {
    /// `accountid`.
    pub account_id: String,
    /// `account`.
    pub account: String,
    /// `domainid`.
    pub domain_id: String,
    /// `domainpath`.
    pub domain_path: String,
    /// `userid`.
    pub user_id: String,
    /// `cmd`, a Java class name that nobody reads.
    pub cmd: String,
    /// `jobid`.
    pub job_id: String,
    /// `jobstatus`.
    pub status: JobStatus,
    /// `jobresultcode`: 0, or the code of the error.
    pub result_code: i64,
    /// `jobresult`, of a finished job.
    pub result: Option<Value>,
    /// `jobinstancetype` and `jobinstanceid`.
    pub instance: Option<(String, String)>,
    /// `created`.
    pub created: Timestamp,
    /// `completed`, of a finished job.
    pub completed: Option<Timestamp>,
    /// Members of ours that clients ignore (`operation`).
    pub more: Map<String, Value>,
}

impl JobReply {
    /// The members in their order on the wire.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        let mut put = |name: &str, value: Value| {
            body.insert(name.to_owned(), value);
        };
        put("accountid", json!(self.account_id));
        put("account", json!(self.account));
        put("domainid", json!(self.domain_id));
        put("domainpath", json!(self.domain_path));
        put("userid", json!(self.user_id));
        put("cmd", json!(self.cmd));
        put("jobstatus", json!(self.status.number()));
        put("jobprocstatus", json!(0));
        put("jobresultcode", json!(self.result_code));
        if let Some(result) = &self.result {
            put("jobresulttype", json!("object"));
            put("jobresult", result.clone());
        }
        if let Some((kind, id)) = &self.instance {
            put("jobinstancetype", json!(kind));
            put("jobinstanceid", json!(id));
        }
        put("created", json!(date(self.created)));
        if let Some(completed) = self.completed {
            put("completed", json!(date(completed)));
        }
        put("jobid", json!(self.job_id));
        for (name, value) in &self.more {
            body.insert(name.clone(), value.clone());
        }
        Value::Object(body)
    }
}

/// The reply to an accepted asynchronous command; `id` when it makes something.
#[must_use]
pub fn submitted(job_id: &str, id: Option<&str>) -> Value {
    match id {
        Some(id) => json!({ "id": id, "jobid": job_id }),
        None => json!({ "jobid": job_id }),
    }
}

/// The `cmd` of a command: the class that CloudStack runs for it.
#[must_use]
pub fn class_of(command: &str) -> String {
    let mut letters = command.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!(
        "org.apache.cloudstack.api.command.user.kubernetes.cluster.{first}{}Cmd",
        letters.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> JobReply {
        JobReply {
            account_id: "a".into(),
            account: "ops".into(),
            domain_id: "d".into(),
            domain_path: "ROOT".into(),
            user_id: "u".into(),
            cmd: class_of("scaleKubernetesCluster"),
            job_id: "j".into(),
            status: JobStatus::Pending,
            result_code: 0,
            result: None,
            instance: Some(("KubernetesCluster".into(), "c".into())),
            created: "2026-01-02T03:04:05Z".parse().unwrap(),
            completed: None,
            more: Map::new(),
        }
    }

    #[test]
    fn a_running_job_has_neither_result_nor_completion() {
        assert_eq!(
            reply().body().to_string(),
            r#"{"accountid":"a","account":"ops","domainid":"d","domainpath":"ROOT","userid":"u","cmd":"org.apache.cloudstack.api.command.user.kubernetes.cluster.ScaleKubernetesClusterCmd","jobstatus":0,"jobprocstatus":0,"jobresultcode":0,"jobinstancetype":"KubernetesCluster","jobinstanceid":"c","created":"2026-01-02T03:04:05+0000","jobid":"j"}"#
        );
    }

    #[test]
    fn a_failed_job_has_both() {
        let mut failed = reply();
        failed.status = JobStatus::Failed;
        failed.result_code = 530;
        failed.result = Some(json!({"errorcode": 530, "errortext": "why"}));
        failed.completed = Some("2026-01-02T03:05:05Z".parse().unwrap());
        failed.more.insert("operation".into(), json!({"step": "drain"}));
        let body = failed.body();
        assert_eq!(body["jobstatus"], 2);
        assert_eq!(body["jobresulttype"], "object");
        assert_eq!(body["jobresult"]["errorcode"], 530);
        assert_eq!(body["completed"], "2026-01-02T03:05:05+0000");
        assert_eq!(body["operation"]["step"], "drain");
    }

    #[test]
    fn submits_and_statuses() {
        assert_eq!(submitted("j", None).to_string(), r#"{"jobid":"j"}"#);
        assert_eq!(submitted("j", Some("i")).to_string(), r#"{"id":"i","jobid":"j"}"#);
        assert_eq!(JobStatus::from_number(3).number(), 2);
    }
}
