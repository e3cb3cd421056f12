//! Connections: accepted up to a number, given up when the other side stalls.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::server::metrics::Metrics;

/// The head of a request must have come by then.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// And the TLS handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Whoever reads nothing for so long is gone.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// The head of a request, all headers together (bytes).
const HEAD_BYTES: usize = 64 << 10;

/// Headers of a request.
const HEADERS: usize = 100;

/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 128;

/// How long connections may take to end in good order.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A connection too many is told so, unless too many are being told.
const REFUSALS_AT_ONCE: usize = 64;

const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Accepts connections and serves them.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// When the address can't be had.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        connections: usize,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        Ok(Self {
            tcp: TcpListener::bind(address).await?,
            tls,
            connections: Arc::new(Semaphore::new(connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS_AT_ONCE)),
            metrics,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `closing` is cancelled, and then until the connections have ended, but not for long.
    pub async fn serve(self, router: Router, closing: CancellationToken) {
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.tcp.accept() => accepted,
                () = closing.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => self.take(stream, &router, graceful.watcher()),
                Err(error) => {
                    // Out of file descriptors, most likely: others have to close theirs first.
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        drop(self.tcp);
        if tokio::time::timeout(LAST_WORDS, graceful.shutdown())
            .await
            .is_err()
        {
            tracing::info!("connections that did not end were cut");
        }
    }

    fn take(&self, stream: TcpStream, router: &Router, watcher: Watcher) {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            self.metrics.refused("connections");
            if let Ok(permit) = Arc::clone(&self.refusals).try_acquire_owned() {
                tokio::spawn(refuse(stream, self.tls.is_some(), permit));
            }
            return;
        };
        prepare(&stream);
        let connection = Connection {
            router: router.clone(),
            watcher,
            _counted: Counted::new(&self.metrics, permit),
        };
        let tls = self.tls.clone();
        tokio::spawn(async move {
            if let Err(error) = connection.serve(stream, tls).await {
                tracing::debug!("a connection ended: {error}");
            }
        });
    }
}

/// Small messages go out at once, and a peer that is gone is noticed.
fn prepare(stream: &TcpStream) {
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(HEAD_TIME)
        .with_interval(HEAD_TIME / 3);
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keepalive));
    #[cfg(target_os = "linux")]
    let prepared = prepared.and_then(|()| socket.set_tcp_user_timeout(Some(WRITE_TIME)));
    if let Err(error) = prepared {
        tracing::debug!("a socket option was not set: {error}");
    }
}

async fn refuse(mut stream: TcpStream, is_tls: bool, _permit: OwnedSemaphorePermit) {
    if is_tls {
        return;
    }
    let told = async {
        stream.write_all(REFUSAL).await?;
        stream.shutdown().await?;
        // Closing with the request unread would take the answer back.
        let mut sink = [0; 1024];
        while stream.read(&mut sink).await? > 0 {}
        io::Result::Ok(())
    };
    // Whether it was heard is the other side's affair.
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}

struct Counted {
    metrics: Arc<Metrics>,
    _permit: OwnedSemaphorePermit,
}

impl Counted {
    fn new(metrics: &Arc<Metrics>, permit: OwnedSemaphorePermit) -> Self {
        metrics.connections.inc();
        Self {
            metrics: Arc::clone(metrics),
            _permit: permit,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

struct Connection {
    router: Router,
    watcher: Watcher,
    _counted: Counted,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<TlsAcceptor>) -> Result<(), Failure> {
        let Some(tls) = tls else {
            return self.http1(stream).await;
        };
        let stream = tokio::time::timeout(HANDSHAKE_TIME, tls.accept(stream)).await??;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            self.http2(stream).await
        } else {
            self.http1(stream).await
        }
    }

    async fn http1(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
    ) -> Result<(), Failure> {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES);
        let service = TowerToHyperService::new(self.router);
        let connection = builder.serve_connection(patient(stream), service);
        until_closed(self.watcher.watch(connection)).await
    }

    async fn http2(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
    ) -> Result<(), Failure> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(HEAD_TIME / 2))
            .keep_alive_timeout(HEAD_TIME)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(u32::try_from(HEAD_BYTES).unwrap_or(u32::MAX));
        let service = TowerToHyperService::new(self.router);
        let connection = builder.serve_connection(patient(stream), service);
        until_closed(self.watcher.watch(connection)).await
    }
}

async fn until_closed<E: Into<Failure>>(
    connection: impl Future<Output = Result<(), E>>,
) -> Result<(), Failure> {
    connection.await.map_err(Into::into)
}

/// A stream whose reader may not stall for ever.
fn patient<S: AsyncRead + AsyncWrite>(stream: S) -> TokioIo<std::pin::Pin<Box<TimeoutStream<S>>>> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    TokioIo::new(Box::pin(stream))
}
