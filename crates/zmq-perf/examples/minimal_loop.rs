//! The least program that measures on the `zeromq` crate: no flags, no checks
//! of what comes, no report. `bench/compare` runs it beside the tools to show
//! what their loop costs above it.
//!
//! `minimal_loop local_thr|remote_thr|local_lat|remote_lat ENDPOINT SIZE COUNT [RUNTIME]`
//!
//! RUNTIME is where it runs: by default on a thread beside the main one, as the
//! tools do; `main` is the main thread, and a number a runtime of so many
//! threads of its own, to show what those cost or bring.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use perf_core::clock::{Clock, MonotonicClock};
use perf_core::runtime::on_own_thread;
use tokio::runtime::{Builder, Runtime};
use zeromq::{
    PullSocket, PushSocket, RepSocket, ReqSocket, Socket, SocketRecv, SocketSend, ZmqMessage,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tool, endpoint, size, count, place @ ..] = arguments.as_slice() else {
        return Err("usage: minimal_loop TOOL ENDPOINT SIZE COUNT [RUNTIME]".into());
    };
    let (size, count): (usize, u64) = (size.parse()?, count.parse()?);
    let message = ZmqMessage::from(bytes::Bytes::from(vec![0; size]));
    let (tool, endpoint) = (tool.clone(), endpoint.clone());
    let work = async move { run(&tool, &endpoint, message, count).await };
    let line = match place.first().map(String::as_str) {
        None => on_own_thread(|| Ok::<_, std::io::Error>(here()?.block_on(work)))??,
        Some("main") => here()?.block_on(work),
        Some(threads) => {
            let runtime = Builder::new_multi_thread()
                .worker_threads(threads.parse()?)
                .enable_all()
                .build()?;
            // On one of the runtime's threads, where its tasks are.
            runtime.block_on(async { tokio::spawn(work).await })?
        }
    };
    let line = line.map_err(|error| error.to_string())?;
    if let Some(line) = line {
        perf_core::cli::print(&line)?;
    }
    Ok(())
}

/// A runtime of the calling thread.
fn here() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn run(
    tool: &str,
    endpoint: &str,
    mut message: ZmqMessage,
    count: u64,
) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
    let clock = MonotonicClock::new();
    match tool {
        "local_thr" => {
            let mut pull = PullSocket::new();
            pull.bind(endpoint).await?;
            pull.recv().await?;
            let started = clock.now();
            for _ in 1..count {
                black_box(pull.recv().await?);
            }
            let elapsed = clock.now().since(started);
            let rate = perf_core::units::per_second(count - 1, elapsed).unwrap_or_default();
            Ok(Some(format!("mean throughput: {rate:.0} [msg/s]\n")))
        }
        "remote_thr" => {
            let mut push = PushSocket::new();
            push.connect(endpoint).await?;
            for _ in 0..count {
                push.send(message.clone()).await?;
            }
            // The crate does not tell when the last message has left.
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(None)
        }
        "local_lat" => {
            let mut reply = RepSocket::new();
            reply.bind(endpoint).await?;
            for _ in 0..count {
                let request = reply.recv().await?;
                reply.send(request).await?;
            }
            Ok(None)
        }
        "remote_lat" => {
            let mut request = ReqSocket::new();
            request.connect(endpoint).await?;
            let started = clock.now();
            for _ in 0..count {
                request.send(message).await?;
                message = request.recv().await?;
            }
            let micros = clock.now().since(started).as_secs_f64() * 1e6;
            let latency = micros / perf_core::units::float(count) / 2.0;
            Ok(Some(format!("average latency: {latency:.3} [us]\n")))
        }
        other => Err(format!("no tool named {other}").into()),
    }
}
