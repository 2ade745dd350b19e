//! The least program that measures on the `zeromq` crate: no flags, no checks
//! of what comes, no report. `bench/compare` runs it beside the tools to show
//! what their loop costs above it.
//!
//! `minimal_loop local_thr|remote_thr|local_lat|remote_lat ENDPOINT SIZE COUNT [THREADS]`
//!
//! Without THREADS it runs on the caller's thread, as the tools do; with them
//! on a runtime of so many, to show what that costs or brings.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use perf_core::clock::{Clock, MonotonicClock};
use zeromq::{
    PullSocket, PushSocket, RepSocket, ReqSocket, Socket, SocketRecv, SocketSend, ZmqMessage,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tool, endpoint, size, count, threads @ ..] = arguments.as_slice() else {
        return Err("usage: minimal_loop TOOL ENDPOINT SIZE COUNT [THREADS]".into());
    };
    let (size, count): (usize, u64) = (size.parse()?, count.parse()?);
    let mut builder = match threads.first() {
        None => tokio::runtime::Builder::new_current_thread(),
        Some(threads) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(threads.parse()?);
            builder
        }
    };
    let runtime = builder.enable_all().build()?;
    let message = ZmqMessage::from(bytes::Bytes::from(vec![0; size]));
    let (tool, endpoint) = (tool.clone(), endpoint.clone());
    let work = async move { run(&tool, &endpoint, message, count).await };
    let line = match threads {
        [] => runtime.block_on(work),
        // On one of the runtime's threads, where its tasks are.
        _ => runtime.block_on(async { tokio::spawn(work).await? }),
    };
    let line = line.map_err(|error| error.to_string())?;
    if let Some(line) = line {
        perf_core::cli::print(&line)?;
    }
    Ok(())
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
