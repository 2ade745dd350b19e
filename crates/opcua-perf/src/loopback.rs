//! `--loopback`: this crate's server in the same process, on a thread and a
//! runtime of its own, over a real socket on a free port.

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use opcua::crypto::SecurityPolicy;
use perf_core::cli::CpuArgs;
use perf_core::exit::Failure;
use perf_core::runtime::{Wait, current_thread, run_to_end};
use tokio::sync::oneshot;

use crate::endpoint::{EndpointUrl, UrlError};
use crate::server::{Server, ServerConfig, ServerError};

/// A server on another thread; it ends when this is dropped.
pub(crate) struct OwnServer {
    url: EndpointUrl,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoopbackError {
    #[error("cannot start the server's thread or runtime")]
    Thread(#[from] io::Error),
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{0}")]
    Cpu(Failure),
    #[error("the server's thread ended early")]
    Ended,
}

impl OwnServer {
    /// Starts a server that offers `policy`, and waits until it listens.
    ///
    /// # Errors
    /// When the server cannot be started, or not on the CPU that is asked for.
    pub(crate) fn start(policy: SecurityPolicy, cpu: CpuArgs) -> Result<Self, Failure> {
        Self::on_its_thread(policy, cpu).map_err(|error| match error {
            LoopbackError::Cpu(failure) => failure,
            error => Failure::run(&error),
        })
    }

    fn on_its_thread(policy: SecurityPolicy, cpu: CpuArgs) -> Result<Self, LoopbackError> {
        let config = ServerConfig {
            listen: "opc.tcp://127.0.0.1:0".parse()?,
            policies: vec![policy],
            identity: None,
            users: None,
            max_sessions: 1,
            spin: true,
            log: Arc::new(|_| ()),
        };
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = Builder::new()
            .name("server".to_owned())
            .spawn(move || serve(config, &cpu, &tell, stopped))?;
        let url = told.recv().map_err(|_| LoopbackError::Ended)??;
        Ok(Self {
            url,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) const fn url(&self) -> &EndpointUrl {
        &self.url
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // A server that is gone needs no telling, and has nothing to say.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    config: ServerConfig,
    cpu: &CpuArgs,
    tell: &mpsc::Sender<Result<EndpointUrl, LoopbackError>>,
    stopped: oneshot::Receiver<()>,
) {
    let bound = cpu
        .pin(1)
        .map_err(LoopbackError::Cpu)
        .and_then(|()| Ok(current_thread(Wait::SpinOnDemand)?))
        .and_then(|runtime| {
            let server = runtime.block_on(Server::bind(config))?;
            Ok((runtime, server))
        });
    match bound {
        Ok((runtime, server)) => {
            // The client waits for this.
            let _ = tell.send(Ok(server.url().clone()));
            run_to_end(runtime, server.run(async { drop(stopped.await) }));
        }
        Err(error) => {
            let _ = tell.send(Err(error));
        }
    }
}
