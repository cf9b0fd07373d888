//! The SSH server of a node: logins by key, `exec` and a simple `shell`, several channels at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use russh::keys::{HashAlg, PrivateKey, PublicKey};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey,
};
use russh::{Channel, ChannelId, ChannelOpenFailure, ChannelWriteHalf, MethodKind, MethodSet, Sig};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::exec::{self, Client, Shell};
use super::{Machine, keys, processes};

/// How many sessions one connection may have at once; OpenSSH's `MaxSessions`.
const MAX_SESSIONS: usize = 10;

/// The server's settings.
pub(super) fn config(host_key: PrivateKey) -> Config {
    Config {
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        // A lab has nobody to slow down, and OpenSSH's client always begins with an attempt that fails.
        auth_rejection_time: std::time::Duration::ZERO,
        auth_rejection_time_initial: Some(std::time::Duration::ZERO),
        keys: vec![host_key],
        inactivity_timeout: None,
        nodelay: true,
        ..Config::default()
    }
}

/// A channel of a connection.
struct Open {
    /// Taken by the command that is started on it.
    write: Option<ChannelWriteHalf<Msg>>,
    /// Where the client's data goes; none before a command and after the end of its input.
    input: Option<UnboundedSender<Bytes>>,
    /// The process group of the command.
    group: Option<i32>,
    /// Whether the input is a person's, line by line, whose paths are mapped here.
    typed: bool,
    gone: CancellationToken,
}

/// One connection. When it is dropped, its commands lose their client and go on.
pub(super) struct Connection {
    machine: Arc<Machine>,
    user: String,
    key: String,
    channels: HashMap<ChannelId, Open>,
}

impl Connection {
    pub(super) fn new(machine: Arc<Machine>) -> Self {
        Self {
            machine,
            user: String::new(),
            key: String::new(),
            channels: HashMap::new(),
        }
    }

    fn may_log_in(&self, user: &str, key: &PublicKey) -> Auth {
        let known = user == self.machine.spec.login_user
            && keys::may_log_in(self.machine.spec.root.as_path(), user, key);
        if known { Auth::Accept } else { Auth::reject() }
    }

    fn start(&mut self, id: ChannelId, what: Shell<'_>, session: &mut Session) -> Result<(), russh::Error> {
        let machine = &self.machine;
        if machine.off.is_cancelled() {
            return Err(russh::Error::Disconnect);
        }
        let Some((open, channel)) = self
            .channels
            .get_mut(&id)
            .and_then(|open| open.write.take().map(|write| (open, write)))
        else {
            return session.channel_failure(id);
        };
        let name = format!("c{}", machine.commands.fetch_add(1, Ordering::Relaxed));
        let text = match what {
            Shell::Line(line) => line,
            Shell::Interactive => "(shell)",
        };
        machine.journal.command(&name, &self.user, text);
        let child = match exec::shell(&machine.map, &self.user, what) {
            Ok(child) => child,
            Err(error) => {
                tracing::warn!(node = %machine.spec.hostname, %error, "a command cannot be started");
                machine.journal.exit(&name, 255);
                return session.channel_failure(id);
            }
        };
        let group = child.id().and_then(|group| i32::try_from(group).ok());
        machine.enter(group);
        let (sender, input) = unbounded_channel();
        open.input = Some(sender);
        open.group = group;
        open.typed = matches!(what, Shell::Interactive);
        let client = Client {
            channel,
            session: session.handle(),
            input,
            gone: open.gone.clone(),
        };
        session.channel_success(id)?;
        let machine = Arc::clone(machine);
        self.machine.tasks.spawn(async move {
            exec::carry(&machine, child, &name, client).await;
            machine.leave(group);
        });
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        for open in self.channels.values() {
            open.gone.cancel();
        }
    }
}

impl Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.may_log_in(user, offer.public_key))
    }

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        user.clone_into(&mut self.user);
        self.key = key.public_key.fingerprint(HashAlg::Sha256).to_string();
        Ok(self.may_log_in(user, key.public_key))
    }

    async fn auth_succeeded(&mut self, _session: &mut Session) -> Result<(), Self::Error> {
        self.machine
            .journal
            .login(&self.user, &format!("Accepted publickey {}", self.key));
        Ok(())
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.retain(|_, open| !open.gone.is_cancelled());
        if self.channels.len() >= MAX_SESSIONS {
            reply.reject(ChannelOpenFailure::ConnectFailed).await;
            return Ok(());
        }
        let id = channel.id();
        // The reading half is dropped: the client's data arrives in `data`, where a command that does not
        // read cannot hold up the connection.
        let (_, write) = channel.split();
        self.channels.insert(
            id,
            Open {
                write: Some(write),
                input: None,
                group: None,
                typed: false,
                gone: CancellationToken::new(),
            },
        );
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let line = String::from_utf8_lossy(data).into_owned();
        self.start(channel, Shell::Line(&line), session)
    }

    async fn shell_request(&mut self, channel: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        self.start(channel, Shell::Interactive, session)
    }

    async fn pty_request(
        &mut self,
        channel: ChannelId,
        _term: &str,
        _col_width: u32,
        _row_height: u32,
        _pix_width: u32,
        _pix_height: u32,
        _modes: &[(russh::Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        // A client that is refused a terminal keeps its own line editing, which is all that a lab needs.
        session.channel_failure(channel)
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        _variable_name: &str,
        _variable_value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn subsystem_request(
        &mut self,
        channel: ChannelId,
        _name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(channel)
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Some(open) = self.channels.get(&channel) else {
            return Ok(());
        };
        let Some(input) = &open.input else {
            return Ok(());
        };
        let data = if open.typed {
            Bytes::from(self.machine.map.map(&String::from_utf8_lossy(data)))
        } else {
            Bytes::copy_from_slice(data)
        };
        // A command that has ended takes nothing more; that is no fault of the connection.
        input.send(data).ok();
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Self::Error> {
        if let Some(open) = self.channels.get_mut(&channel) {
            open.input = None;
        }
        Ok(())
    }

    async fn channel_close(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Self::Error> {
        if let Some(open) = self.channels.remove(&channel) {
            open.gone.cancel();
        }
        Ok(())
    }

    async fn signal(
        &mut self,
        channel: ChannelId,
        signal: Sig,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        let group = self.channels.get(&channel).and_then(|open| open.group);
        if let (Some(group), Some(signal)) = (group, exec::signal_number(&signal)) {
            processes::signal_group(group, signal);
        }
        Ok(())
    }
}
