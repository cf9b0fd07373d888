//! One server: its data made, its process started, its answer waited for.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use secrecy::{ExposeSecret as _, SecretString};
use sqlx::migrate::MigrateDatabase as _;

use super::postmaster::Postmaster;
use super::{
    Binaries, LONGEST_SOCKET_FOLDER, LOOK_AGAIN, Owner, PostgresError, PrivatePostgres, START_LIMIT, hex,
    pause, place,
};

/// One folder and what serves it.
pub(super) struct Server {
    pub(super) binaries: Binaries,
    pub(super) folder: PathBuf,
    pub(super) owner: Option<Owner>,
}

impl Server {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) async fn attach_or_start(&self) -> Result<PrivatePostgres, PostgresError> {
        let password = self.password()?;
        if let Some(postmaster) = Postmaster::living(&self.data()) {
            return self.answered(postmaster, &password, true).await;
        }
        if !self.data().join("PG_VERSION").exists() {
            self.initdb()?;
        }
        let postmaster = self.spawn()?;
        self.answered(postmaster, &password, false).await
    }

    /// The password of the superuser: made once, readable by the server's user and by us.
    fn password(&self) -> Result<SecretString, PostgresError> {
        let path = self.folder.join("password");
        if let Ok(text) = fs::read_to_string(&path)
            && !text.trim().is_empty()
        {
            return Ok(SecretString::from(text.trim().to_owned()));
        }
        let password = hex(&rand::random::<[u8; 24]>());
        place::write_private(&path, &password, self.owner.as_ref())?;
        Ok(SecretString::from(password))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.binaries.folder.join(program));
        command
            .env_clear()
            .env("LANG", "C")
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::null());
        if let Some(owner) = &self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        command
    }

    /// Makes the data folder. A half-made one, of a start that was killed, is made anew.
    fn initdb(&self) -> Result<(), PostgresError> {
        let data = self.data();
        if data.exists() {
            fs::remove_dir_all(&data).map_err(PostgresError::io(format!("removing `{}`", data.display())))?;
        }
        let made = self.folder.join("data.making");
        if made.exists() {
            fs::remove_dir_all(&made).map_err(PostgresError::io(format!("removing `{}`", made.display())))?;
        }
        let output = self
            .command("initdb")
            .arg("-D")
            .arg(&made)
            .args([
                "-U",
                "postgres",
                "-A",
                "scram-sha-256",
                "-E",
                "UTF8",
                "--locale=C",
            ])
            .arg(format!("--pwfile={}", self.folder.join("password").display()))
            .output()
            .map_err(PostgresError::io("starting initdb"))?;
        if !output.status.success() {
            return Err(PostgresError::Initdb {
                folder: self.folder.display().to_string(),
                output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        // A rename is whole or not at all, so `data` never holds half a database.
        fs::rename(&made, &data).map_err(PostgresError::io(format!("renaming `{}`", made.display())))
    }

    fn spawn(&self) -> Result<Postmaster, PostgresError> {
        let log_path = self.folder.join("log");
        let log = fs::File::create(&log_path)
            .map_err(PostgresError::io(format!("making `{}`", log_path.display())))?;
        let errors = log
            .try_clone()
            .map_err(PostgresError::io("opening the log twice"))?;
        let socket = self.folder.join("socket");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        if socket.as_os_str().len() <= LONGEST_SOCKET_FOLDER {
            place::make_folder(&socket, self.owner.as_ref())?;
            command.arg("-c").arg("listen_addresses=").arg("-k").arg(&socket);
        } else {
            let port = free_port().map_err(PostgresError::io("looking for a free port"))?;
            command.args([
                "-c",
                "listen_addresses=127.0.0.1",
                "-k",
                "",
                "-p",
                &port.to_string(),
            ]);
        }
        let child = command
            .args(["-c", "shared_buffers=64MB", "-c", "max_connections=100"])
            .stdout(log)
            .stderr(errors)
            // A group of its own: Ctrl-C in the terminal reaches us only, and we stop the server in order.
            .process_group(0)
            .spawn()
            .map_err(PostgresError::io(format!(
                "starting `{}`",
                self.binaries.folder.join("postgres").display()
            )))?;
        Ok(Postmaster::child(child, self.data()))
    }

    /// Waits until the server answers, makes the database if there is none, and returns it.
    async fn answered(
        &self,
        mut postmaster: Postmaster,
        password: &SecretString,
        attached: bool,
    ) -> Result<PrivatePostgres, PostgresError> {
        let waited = tokio::time::timeout(START_LIMIT, async {
            loop {
                if !postmaster.is_alive() {
                    return Err("ended".to_owned());
                }
                if let Some(address) = postmaster.address() {
                    let url = address.url(password);
                    match self.ensure_database(&url).await {
                        Ok(()) => return Ok(url),
                        Err(error) => tracing::debug!(%error, "the private Postgres does not answer yet"),
                    }
                }
                pause(LOOK_AGAIN).await;
            }
        })
        .await
        .unwrap_or_else(|_| Err(format!("did not answer within {} s", START_LIMIT.as_secs())));
        match waited {
            Ok(url) => Ok(PrivatePostgres {
                url,
                folder: self.folder.clone(),
                attached,
            }),
            Err(what) => Err(PostgresError::NoAnswer {
                folder: self.folder.display().to_string(),
                what,
                log: self.end_of_log(),
            }),
        }
    }

    async fn ensure_database(&self, url: &SecretString) -> Result<(), sqlx::Error> {
        if !sqlx::Postgres::database_exists(url.expose_secret()).await? {
            sqlx::Postgres::create_database(url.expose_secret()).await?;
        }
        Ok(())
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
