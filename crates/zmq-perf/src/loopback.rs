//! Both ends in one process, each on a thread and a runtime of its own, or
//! both as tasks of one runtime: `--loopback` over a real socket on a free
//! port, and the inproc tools.

use std::io;
use std::thread::Builder;

use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::error::{Ended, Error};
use crate::session::Threads;

/// The endpoint that the binding end of a loopback takes.
pub(crate) const ENDPOINT: &str = "tcp://127.0.0.1:*";

/// Where the other end runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a thread and a runtime of its own.
    OwnThread,
    /// As another task of this end's runtime.
    SameThread,
}

impl Place {
    /// Runs this end where the other one can be started as a task.
    pub(crate) async fn run<F: Future>(self, work: F) -> F::Output {
        match self {
            Self::OwnThread => work.await,
            Self::SameThread => LocalSet::new().run_until(work).await,
        }
    }
}

/// The other end; tells how it ended.
pub(crate) struct OtherEnd(oneshot::Receiver<Result<(), Ended>>);

impl OtherEnd {
    /// Starts it; on its own thread it waits as the first end does.
    pub(crate) fn start<F>(
        place: Place,
        threads: Threads,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Self, Error>
    where
        F: Future<Output = Result<(), Ended>> + 'static,
    {
        let (tell, told) = oneshot::channel();
        // Nobody wants to know any more when this process is ending.
        let tell = |result| drop(tell.send(result));
        match place {
            Place::OwnThread => {
                Builder::new()
                    .name("other-end".to_owned())
                    .spawn(move || tell(threads.run(1, make).map_err(Ended::from).flatten()))
                    .map_err(Error::Runtime)?;
            }
            Place::SameThread => {
                let work = make();
                tokio::task::spawn_local(async move { tell(work.await) });
            }
        }
        Ok(Self(told))
    }

    /// Waits until it has ended. Only for after a whole run: the other end has
    /// then nothing left to do but to see that this one is gone, for which
    /// this one's runtime still has to run.
    pub(crate) async fn join(self) -> Result<(), Ended> {
        self.0
            .await
            .map_err(|_| Error::Runtime(io::Error::other("the other end's thread panicked")))?
    }
}
