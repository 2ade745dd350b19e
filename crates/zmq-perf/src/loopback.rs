//! `--loopback`: both ends in one process, each on a thread and a runtime of
//! its own, over a real socket on a free port.

use std::io;
use std::thread::{Builder, JoinHandle};

use perf_core::cli::CpuArgs;
use perf_core::runtime::{current_thread, run_to_end};

use crate::error::{Ended, Error};

/// The endpoint that the binding end of a loopback takes.
pub(crate) const ENDPOINT: &str = "tcp://127.0.0.1:*";

/// The other end, on its own thread.
pub(crate) struct OtherEnd(JoinHandle<Result<(), Ended>>);

impl OtherEnd {
    /// Starts it; it waits as the first end does.
    pub(crate) fn start<F>(
        cpu: CpuArgs,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Self, Error>
    where
        F: Future<Output = Result<(), Ended>>,
    {
        let thread = Builder::new()
            .name("other-end".to_owned())
            .spawn(move || {
                cpu.pin(1).map_err(Error::Cpu)?;
                let runtime = current_thread(cpu.wait()).map_err(Error::Runtime)?;
                run_to_end(runtime, make())
            })
            .map_err(Error::Runtime)?;
        Ok(Self(thread))
    }

    /// Waits until it has ended. Only for after a whole run: the other end has
    /// then nothing left to do.
    pub(crate) fn join(self) -> Result<(), Ended> {
        self.0
            .join()
            .map_err(|_| Error::Runtime(io::Error::other("the other end's thread panicked")))?
    }
}
