//! A listener whose connections can be cut from a handler, so that an answer can be dropped.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Cuts one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cut(Arc<AtomicBool>);

impl Cut {
    /// Nothing more is written to the connection.
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The listener.
pub(crate) struct Doors(pub(crate) TcpListener);

impl Listener for Doors {
    type Io = Door;
    type Addr = Cut;

    async fn accept(&mut self) -> (Door, Cut) {
        loop {
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let cut = Cut::default();
                    return (
                        Door {
                            stream,
                            cut: cut.clone(),
                        },
                        cut,
                    );
                }
                // Out of descriptors, or the peer is gone already: later ones may do better.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Cut> {
        Ok(Cut::default())
    }
}

impl Connected<IncomingStream<'_, Doors>> for Cut {
    fn connect_info(stream: IncomingStream<'_, Doors>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A connection.
pub(crate) struct Door {
    stream: TcpStream,
    cut: Cut,
}

impl Door {
    fn check(&self) -> io::Result<()> {
        if self.cut.0.load(Ordering::SeqCst) {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }
}

impl AsyncRead for Door {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Door {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
