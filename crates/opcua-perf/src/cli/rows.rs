//! Rows on stdout, written by a thread of their own: the timed loop hands a
//! row over and goes on.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use perf_core::exit::Failure;
use tokio::sync::watch;

use crate::read_loop::Row;
use crate::read_speed_text;

/// How long a reader of stdout that takes nothing is waited for at the end.
const TIME_TO_TAKE: Duration = Duration::from_secs(2);

/// Stdout, as far as it went well.
type Written = io::Result<()>;

/// The thread that writes the rows.
pub(super) struct RowPrinter {
    /// A row, or the end.
    rows: mpsc::Sender<Option<Row>>,
    ended: mpsc::Receiver<Written>,
    thread: JoinHandle<()>,
}

impl RowPrinter {
    /// Writes the header and waits for rows. `gone` becomes true when stdout
    /// takes no more, because its reader went away or because of an error.
    pub(super) fn start(gone: watch::Sender<bool>) -> io::Result<Self> {
        let (rows, to_write) = mpsc::channel();
        let (tell, ended) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("rows".to_owned())
            .spawn(move || {
                let written = write_all(&to_write);
                gone.send_replace(written.is_err());
                // Nobody listens any more when the tool has given up waiting.
                let _ = tell.send(written);
            })?;
        Ok(Self {
            rows,
            ended,
            thread,
        })
    }

    /// What takes a row.
    pub(super) fn sender(&self) -> impl Fn(Row) + use<> {
        let rows = self.rows.clone();
        move |row| {
            // The thread is gone when stdout is; the run is being stopped.
            let _ = rows.send(Some(row));
        }
    }

    /// Waits until the rows are written. A reader that went away is not an
    /// error.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let Self {
            rows,
            ended,
            thread,
        } = self;
        // The thread is gone when stdout is.
        let _ = rows.send(None);
        let Ok(written) = ended.recv_timeout(TIME_TO_TAKE) else {
            return Err(Failure::run(&CannotPrint(io::ErrorKind::TimedOut.into())));
        };
        // It has nothing left to do.
        let _ = thread.join();
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::run(&CannotPrint(error)))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the rows to stdout")]
struct CannotPrint(#[source] io::Error);

fn write_all(rows: &mpsc::Receiver<Option<Row>>) -> Written {
    let mut stdout = io::stdout().lock();
    let mut write = |text: &str| {
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
    };
    write(read_speed_text::HEADER)?;
    while let Ok(Some(row)) = rows.recv() {
        write(&read_speed_text::row(&row))?;
    }
    Ok(())
}
