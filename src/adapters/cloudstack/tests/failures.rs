//! Failures: their kind, whether the effect may have happened, whether to ask again.

use rstest::rstest;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::{client, cloud, id};
use crate::adapters::cloudstack::{CloudOptions, CloudStackClient};
use crate::ports::cloud::{CloudError, CloudErrorKind, MachineQuery};
use crate::ports::fault::Effect::{self, DidNotHappen, MayHaveHappened};
use crate::ports::fault::Retry::{self, Later, Never, Soon};

fn told(error: &CloudError) -> (CloudErrorKind, Effect, Retry) {
    (error.kind, error.effect, error.retry)
}

fn refusal(code: u16, text: &str) -> (u16, String) {
    (
        code,
        format!(r#"{{"errorresponse":{{"uuidList":[],"errorcode":{code},"errortext":"{text}"}}}}"#),
    )
}

const GONE: &str = "Invalid parameter id value=x due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.";

#[rstest]
#[case(
    401,
    "unable to verify user credentials and/or request signature",
    CloudErrorKind::Refused,
    DidNotHappen,
    Later
)]
#[case(
    432,
    "The API [x] does not exist or is not available for the account a.",
    CloudErrorKind::Refused,
    DidNotHappen,
    Later
)]
#[case(
    531,
    "Acct does not have permission",
    CloudErrorKind::Refused,
    DidNotHappen,
    Later
)]
#[case(431, GONE, CloudErrorKind::NotFound, DidNotHappen, Never)]
#[case(
    431,
    "Unable to find uuid for id 7",
    CloudErrorKind::NotFound,
    DidNotHappen,
    Never
)]
#[case(
    431,
    "Unable to destroy a machine with delete protection",
    CloudErrorKind::Answer(431),
    DidNotHappen,
    Never
)]
#[case(
    429,
    "please retry after [7] ms.",
    CloudErrorKind::Answer(429),
    DidNotHappen,
    Soon
)]
#[case(503, "shutting down", CloudErrorKind::Answer(503), DidNotHappen, Soon)]
#[case(
    530,
    "Internal error executing command",
    CloudErrorKind::Answer(530),
    MayHaveHappened,
    Soon
)]
#[case(
    533,
    "Insufficient capacity",
    CloudErrorKind::Answer(533),
    MayHaveHappened,
    Later
)]
#[case(535, "limit", CloudErrorKind::Answer(535), MayHaveHappened, Later)]
#[case(
    537,
    "There is already a rule",
    CloudErrorKind::Answer(537),
    DidNotHappen,
    Never
)]
#[tokio::test]
async fn each_code_has_its_meaning(
    #[case] code: u16,
    #[case] text: &'static str,
    #[case] kind: CloudErrorKind,
    #[case] effect: Effect,
    #[case] retry: Retry,
) {
    let (cloud, _) = cloud(move |_| refusal(code, text)).await;
    let error = cloud.destroy(id(1)).await.unwrap_err();
    assert_eq!(told(&error), (kind, effect, retry));
    assert_eq!(
        (error.command.as_str(), error.text.as_str()),
        ("destroyVirtualMachine", text)
    );
    let error = cloud.machines(&MachineQuery::default()).await.unwrap_err();
    assert_eq!(error.effect, DidNotHappen, "reading does nothing");
}

#[tokio::test]
async fn an_answer_that_does_not_come_leaves_a_submit_unknown() {
    let (cloud, _) = cloud(|_| (0, String::new())).await;
    assert_eq!(
        told(&cloud.stop(id(1)).await.unwrap_err()),
        (CloudErrorKind::Away, MayHaveHappened, Soon)
    );
    assert_eq!(
        told(&cloud.job(id(1)).await.unwrap_err()),
        (CloudErrorKind::Away, DidNotHappen, Soon)
    );
}

#[tokio::test]
async fn a_connection_that_closes_after_the_request_leaves_a_submit_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut some = [0; 16];
            stream.read_exact(&mut some).await.ok();
        }
    });
    let cloud = client(&format!("http://{address}/client/api"));
    assert_eq!(
        told(&cloud.stop(id(1)).await.unwrap_err()),
        (CloudErrorKind::Away, MayHaveHappened, Soon)
    );
}

#[tokio::test]
async fn a_cloud_that_nobody_listens_for_is_away_and_nothing_happened() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let cloud = client(&format!("http://{address}/client/api"));
    let error = cloud.stop(id(1)).await.unwrap_err();
    assert_eq!(told(&error), (CloudErrorKind::Away, DidNotHappen, Soon));
    assert!(
        !error.text.contains("signature") && !error.text.contains("ak-test"),
        "{error}"
    );
}

#[rstest]
#[case(502, "<html>bad gateway</html>", CloudErrorKind::Away, MayHaveHappened)]
#[case(503, "no backend", CloudErrorKind::Away, DidNotHappen)]
#[case(200, "<html>log in here</html>", CloudErrorKind::Unreadable, MayHaveHappened)]
#[case(200, "", CloudErrorKind::Unreadable, MayHaveHappened)]
#[case(200, "{}", CloudErrorKind::Unreadable, MayHaveHappened)]
#[case(
    200,
    r#"{"stopvirtualmachineresponse":{}}"#,
    CloudErrorKind::Unreadable,
    MayHaveHappened
)]
#[case(
    200,
    r#"{"stopvirtualmachineresponse":{"jobid":"no uuid"}}"#,
    CloudErrorKind::Unreadable,
    MayHaveHappened
)]
#[tokio::test]
async fn answers_that_are_none(
    #[case] status: u16,
    #[case] text: &'static str,
    #[case] kind: CloudErrorKind,
    #[case] effect: Effect,
) {
    let (cloud, _) = cloud(move |_| (status, text.to_owned())).await;
    let error = cloud.stop(id(1)).await.unwrap_err();
    assert_eq!((error.kind, error.effect), (kind, effect), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let (cloud, _) = cloud(|_| (200, " ".repeat(40 << 20))).await;
    let error = cloud.machines(&MachineQuery::default()).await.unwrap_err();
    assert_eq!(error.kind, CloudErrorKind::Unreadable);
    assert!(error.text.contains("larger than 32 MiB"), "{error}");
}

#[test]
fn options_that_cannot_work_are_told() {
    let options = |endpoint: &str, ca: Option<&str>| CloudOptions {
        endpoint: endpoint.into(),
        api_key: "k".into(),
        secret_key: "s".to_owned().into(),
        timeout: std::time::Duration::from_secs(1),
        ca_pem: ca.map(str::to_owned),
    };
    for (endpoint, ca) in [
        ("cloud.example", None),
        ("ftp://cloud.example", None),
        ("http://c/client/api?x=1", None),
    ] {
        let text = CloudStackClient::new(options(endpoint, ca)).err().unwrap();
        assert!(text.contains(endpoint), "{text}");
    }
    assert!(CloudStackClient::new(options("https://cloud.example/client/api", Some("no PEM"))).is_err());
}
