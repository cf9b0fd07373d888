//! The private server for real: made, stopped, started again, attached to after its starter is gone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::ExposeSecret as _;
use sqlx::Connection as _;

use super::postmaster::PidFile;
use super::{
    Address, Binaries, Options, Owner, Place, PostgresError, binaries, place, remove, start, stop,
    url_of_living,
};

/// A folder for one test; its server is stopped and the folder removed by `clean`.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cksd-up-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    async fn clean(self) {
        remove(&self.0).await.unwrap();
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn environment() -> BTreeMap<String, String> {
    crate::config::environment()
}

async fn started(data: &Path) -> super::PrivatePostgres {
    let environment = environment();
    start(&Options {
        data,
        environment: &environment,
    })
    .await
    .unwrap()
}

async fn answers(url: &secrecy::SecretString) -> bool {
    match sqlx::PgConnection::connect(url.expose_secret()).await {
        Ok(mut connection) => connection.ping().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_server_is_made_stopped_and_started_again_on_the_same_data() {
    let folder = Folder::new("again");
    let first = started(&folder.0).await;
    assert!(!first.attached());
    assert!(answers(first.url()).await);
    assert!(
        first.url().expose_secret().contains("host="),
        "a socket, as the path is short"
    );
    let (place, url) = (first.folder().to_owned(), first.url().expose_secret().to_owned());
    assert_eq!(
        fs::metadata(place.join("password")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let found = url_of_living(&folder.0).unwrap().unwrap();
    assert_eq!(found.expose_secret(), url);
    stop(&folder.0).await.unwrap();
    assert!(url_of_living(&folder.0).unwrap().is_none());
    assert!(!answers(&secrecy::SecretString::from(url.clone())).await);

    let second = started(&folder.0).await;
    assert!(!second.attached());
    assert_eq!(
        (second.folder(), second.url().expose_secret()),
        (place.as_path(), url.as_str())
    );
    folder.clean().await;
}

#[tokio::test]
async fn a_server_that_lives_is_attached_to_and_a_second_start_at_once_waits_for_the_first() {
    let folder = Folder::new("attach");
    let (one, two) = tokio::join!(started(&folder.0), started(&folder.0));
    assert!(
        one.attached() != two.attached(),
        "one started it, the other found it"
    );
    // What a killed service leaves behind: nobody stops the server.
    drop((one, two));
    let found = started(&folder.0).await;
    assert!(found.attached() && answers(found.url()).await);
    folder.clean().await;
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_gets_a_port_on_loopback() {
    let folder = Folder::new(&"long-".repeat(20));
    let server = started(&folder.0).await;
    assert!(server.url().expose_secret().contains("@127.0.0.1:"));
    assert!(answers(server.url()).await);
    folder.clean().await;
}

#[tokio::test]
async fn data_of_another_major_version_is_not_started() {
    let folder = Folder::new("major");
    let base = Place::choose(&folder.0, Owner::of_this_process().unwrap().as_ref())
        .unwrap()
        .base;
    fs::create_dir_all(base.join("9/data")).unwrap();
    fs::write(base.join("9/data/PG_VERSION"), "9\n").unwrap();
    let environment = environment();
    let error = start(&Options {
        data: &folder.0,
        environment: &environment,
    })
    .await
    .unwrap_err();
    assert!(
        matches!(error, PostgresError::OtherMajor { stored: 9, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("start anew with --fresh"));
    folder.clean().await;
}

#[test]
fn a_folder_that_the_other_user_cannot_enter_is_left_for_another_place() {
    let path = std::env::temp_dir().join(format!("cksd-closed-{}", std::process::id()));
    let inner = path.join("inner");
    fs::create_dir_all(&inner).unwrap();
    let stranger = Owner {
        name: "stranger".to_owned(),
        uid: 54_321,
        gid: 54_321,
    };
    assert!(place::can_use(&inner, &stranger));
    assert_eq!(Place::choose(&inner, Some(&stranger)).unwrap().note, None);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!place::can_use(&inner, &stranger));
    let elsewhere = Place::choose(&inner, Some(&stranger)).unwrap();
    assert!(elsewhere.base.starts_with("/var/lib/cksd"));
    assert_eq!(
        elsewhere.note,
        Some(inner.canonicalize().unwrap().join("pg.place"))
    );
    assert_eq!(
        Place::choose(&inner, Some(&stranger)).unwrap(),
        elsewhere,
        "the same each time"
    );

    let metadata = fs::metadata(&path).unwrap();
    let ours = Owner {
        name: "ours".to_owned(),
        uid: metadata.uid(),
        gid: metadata.gid(),
    };
    assert!(place::can_use(&inner, &ours));
    fs::remove_dir_all(&path).unwrap();
}

#[test]
fn the_pid_file_is_read_and_only_a_ready_server_has_an_address() {
    let text = "4711\n/data/pg/15/data\n1764536400\n5433\n/data/pg/15/socket\n\n 5433001 1\nready   \n";
    let file = PidFile::parse(text).unwrap();
    let socket = Some(PathBuf::from("/data/pg/15/socket"));
    assert_eq!(
        (file.pid, file.address),
        (
            4711,
            Some(Address {
                socket_folder: socket,
                port: 5433
            })
        )
    );
    assert_eq!(
        PidFile::parse(&text.replace("ready", "starting"))
            .unwrap()
            .address,
        None
    );
    assert_eq!(PidFile::parse("not a pid\n"), None);
}

#[test]
fn versions_are_read_and_what_is_configured_comes_first() {
    assert_eq!(
        binaries::major_of("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)\n"),
        Some(15)
    );
    assert_eq!(binaries::major_of("postgres (PostgreSQL) 18beta1\n"), Some(18));
    assert_eq!(binaries::major_of("something else"), None);
    let environment = BTreeMap::from([("CKSD_POSTGRES_BIN".to_owned(), "/".to_owned())]);
    assert_eq!(
        binaries::candidates(&environment).first(),
        Some(&PathBuf::from("/"))
    );
    let error = Binaries::find(&environment, Some(9), None).unwrap_err();
    assert!(error.to_string().contains("looked in /"), "{error}");
}
