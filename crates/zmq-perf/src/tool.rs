//! Each tool, from its arguments to its exit code.

use std::num::NonZeroU64;
use std::process::ExitCode;

use perf_core::cli::{
    CpuArgs, DistributionArgs, PatienceArgs, RateArgs, ReportArgs, RunArgs, note, run_main,
};
use perf_core::exit::{Exit, Failure};
use perf_core::limit::{Rate, RunLimit, StopReason};
use perf_core::measure::{Finished, Plan};
use perf_core::monitor::{Show, Wording};
use perf_core::report::outputs::{Outputs, Table};
use perf_core::report::{IntervalReport, Outcome, Peer, Report};
use perf_core::runtime::on_own_thread;
use perf_core::summary::{LatencySummary, Throughput, mean};
use perf_core::units::{count, float, nanos};
use perf_core::warning::{Doubts, Warning, few_samples};
use serde_json::Value;

use crate::cli::{
    InprocLat, InprocThr, LocalLat, LocalThr, PeersArgs, PlaceArgs, RemoteLat, RemoteThr, Target,
    check_stamp, loopback_first,
};
use crate::curve::Keys;
use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::loopback::Place;
use crate::session::{Measured, Patience, Threads};
use crate::stack::{Carrier, Socket, Stack, StackError, on_stack};
use crate::stamp::{Delays, Ignore, SendTime, Zeros};
use crate::{latency, libzmq_text, throughput};

/// Half a round trip: what upstream calls latency.
const ONE_WAY: f64 = 0.5;

/// The program `local_lat`.
#[must_use]
pub fn local_lat() -> ExitCode {
    run_main(std::env::args_os(), |args: LocalLat| {
        let limit = args.count.map_or(RunLimit::Endless, RunLimit::Count);
        let plan = Plan::bare(limit, round_trips("local_lat"));
        let curve = args.curve.keys(false)?;
        let carrier = args.stack.between(&args.endpoint, curve.is_some())?;
        let mut tool = Tool::open(&args.report, None, &plan, &args.cpu)?;
        let mut socket = tool.socket(carrier, args.endpoint, args.size, curve, &args.patience);
        tool.peers(&mut socket, args.peers, 1)?;
        let served = run(
            &args.patience,
            &Threads::between(args.cpu),
            async |patience| {
                on_stack!(carrier, S => {
                    latency::reply::<S>(&socket, &plan, patience, |_| ()).await
                })
            },
        );
        tool.conclude(served, latency::done, |_, _| None)
    })
}

/// The program `remote_lat`.
#[must_use]
pub fn remote_lat() -> ExitCode {
    run_main(loopback_first(), |args: RemoteLat| {
        // With several under way the elapsed time says nothing of one.
        let timed = args.report.wants_times(&args.distribution) || args.peers.several();
        let plan = latency_plan("remote_lat", args.count, &args.run, &args.rate, timed)?;
        let endpoint = args.target.endpoint()?;
        let loopback = args.target == Target::Loopback;
        let curve = args.curve.keys(false, loopback)?;
        let carrier = args.stack.between(&endpoint, curve.is_some())?;
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        let mut socket = tool.socket(carrier, endpoint, args.size, curve, &args.patience);
        tool.peers(&mut socket, args.peers, if loopback { 2 } else { 1 })?;
        let measured = run(
            &args.patience,
            &Threads::between(args.cpu),
            async |patience| {
                on_stack!(carrier, S => if loopback {
                    latency::loopback::<S>(&socket, &plan, patience, Place::OwnThread).await
                } else {
                    latency::request::<S>(&socket, &plan, patience).await
                })
            },
        );
        tool.conclude(measured, latency::done, |tool, measured| {
            let trips = measured.completed();
            let line = tool.latency(measured);
            (trips > 0).then(|| libzmq_text::latency_header(args.size, trips) + &line)
        })
    })
}

/// The program `inproc_lat`.
#[must_use]
pub fn inproc_lat() -> ExitCode {
    run_main(std::env::args_os(), |args: InprocLat| {
        let timed = args.report.wants_times(&args.distribution);
        let plan = latency_plan("inproc_lat", args.count, &args.run, &args.rate, timed)?;
        let endpoint = Endpoint::Inproc("lat_test".to_owned());
        let carrier = args.stack.within(&endpoint)?;
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        let socket = tool.socket(carrier, endpoint, args.size, None, &args.patience);
        let place = tool.place(args.place);
        let header = |trips| libzmq_text::latency_header(args.size, trips);
        let told = tool.before(header)?;
        let measured = run(
            &args.patience,
            &Threads::within(args.cpu),
            async |patience| on_stack!(carrier, S => latency::loopback::<S>(&socket, &plan, patience, place).await),
        );
        tool.conclude(measured, latency::done, |tool, measured| {
            let trips = measured.completed();
            let line = tool.latency(measured);
            (trips > 0).then(|| told.map_or_else(|| header(trips), |()| String::new()) + &line)
        })
    })
}

/// The program `local_thr`.
#[must_use]
pub fn local_thr() -> ExitCode {
    run_main(loopback_first(), |args: LocalThr| {
        let size = args.load.size;
        check_stamp(args.stamp, size)?;
        let plan = throughput_plan("local_thr", args.load.count, &args.run, None)?;
        let endpoint = args.target.endpoint()?;
        let curve = args.curve.keys(args.load.enable_curve)?;
        let carrier = args.stack.between(&endpoint, curve.is_some())?;
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        let loopback = args.target == Target::Loopback;
        tool.setting("stamp", args.stamp);
        let mut socket = tool.socket(carrier, endpoint, size, curve, &args.patience);
        tool.peers(&mut socket, args.peers, if loopback { 2 } else { 1 })?;
        let mut delays = args.stamp.then(Delays::new);
        let measured = run(
            &args.patience,
            &Threads::between(args.cpu),
            async |patience| {
                let bound = |_: &Endpoint| Ok(());
                on_stack!(carrier, S => match (loopback, &mut delays) {
                    (false, None) => {
                        throughput::receive::<S>(&socket, &plan, patience, &mut Ignore, bound).await
                    }
                    (false, Some(delays)) => {
                        throughput::receive::<S>(&socket, &plan, patience, delays, bound).await
                    }
                    (true, delays) => {
                        flood::<S>(&socket, &plan, patience, delays, Place::OwnThread).await
                    }
                })
            },
        );
        tool.delays = delays;
        tool.conclude(measured, throughput::done, |tool, measured| {
            let lines = tool.throughput(measured, size);
            Some(libzmq_text::throughput_header(size, measured.completed()) + &lines)
        })
    })
}

/// The program `inproc_thr`.
#[must_use]
pub fn inproc_thr() -> ExitCode {
    run_main(std::env::args_os(), |args: InprocThr| {
        let size = args.size;
        check_stamp(args.stamp, size)?;
        let plan = throughput_plan("inproc_thr", args.count, &args.run, None)?;
        let endpoint = Endpoint::Inproc("thr_test".to_owned());
        let carrier = args.stack.within(&endpoint)?;
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        tool.setting("stamp", args.stamp);
        let socket = tool.socket(carrier, endpoint, size, None, &args.patience);
        let place = tool.place(args.place);
        let mut delays = args.stamp.then(Delays::new);
        let header = |messages| libzmq_text::throughput_header(size, messages);
        let told = tool.before(header)?;
        let measured = run(
            &args.patience,
            &Threads::within(args.cpu),
            async |patience| on_stack!(carrier, S => flood::<S>(&socket, &plan, patience, &mut delays, place).await),
        );
        tool.delays = delays;
        tool.conclude(measured, throughput::done, |tool, measured| {
            let lines = tool.throughput(measured, size);
            let header = told.map_or_else(|| header(measured.completed()), |()| String::new());
            Some(header + &lines)
        })
    })
}

/// The program `proxy_thr`.
#[cfg(feature = "omq")]
#[must_use]
pub fn proxy_thr() -> ExitCode {
    run_main(std::env::args_os(), |args: crate::cli::ProxyThr| {
        let size = args.size;
        let plan = throughput_plan("proxy_thr", args.count, &args.run, None)?;
        let carrier = args.stack.through_proxy()?;
        let mut tool = Tool::open(&args.report, None, &plan, &args.cpu)?;
        tool.threads = 4;
        let endpoint = Endpoint::Inproc("perf_backend".to_owned());
        let socket = tool.socket(carrier, endpoint, size, None, &args.patience);
        let header = |messages| libzmq_text::throughput_header(size, messages);
        let told = tool.before(header)?;
        let measured = run(
            &args.patience,
            &Threads::within(args.cpu),
            async |patience| crate::proxy::receive(&socket, &plan, patience).await,
        );
        tool.conclude(measured, throughput::done, |tool, measured| {
            let lines = tool.throughput(measured, size);
            let header = told.map_or_else(|| header(measured.completed()), |()| String::new());
            Some(header + &lines)
        })
    })
}

/// Both ends of a flood in this process, with stamps where there is a place
/// for their delays.
async fn flood<S: Stack>(
    socket: &Socket,
    plan: &Plan,
    patience: &Patience,
    delays: &mut Option<Delays>,
    place: Place,
) -> Result<Measured, Ended> {
    match delays {
        None => throughput::loopback::<S>(socket, plan, patience, &mut Ignore, Zeros, place).await,
        Some(delays) => {
            let fill = SendTime::new();
            throughput::loopback::<S>(socket, plan, patience, delays, fill, place).await
        }
    }
}

/// The program `remote_thr`.
#[must_use]
pub fn remote_thr() -> ExitCode {
    run_main(std::env::args_os(), |args: RemoteThr| {
        let size = args.load.size;
        check_stamp(args.stamp, size)?;
        let rate = args.rate.rate;
        let plan = throughput_plan("remote_thr", args.load.count, &args.run, rate)?;
        let curve = args.curve.keys(args.load.enable_curve, false)?;
        let carrier = args.stack.between(&args.endpoint, curve.is_some())?;
        let mut tool = Tool::open(&args.report, None, &plan, &args.cpu)?;
        tool.setting("stamp", args.stamp);
        let mut socket = tool.socket(carrier, args.endpoint, size, curve, &args.patience);
        tool.peers(&mut socket, args.peers, 1)?;
        let sent = run(
            &args.patience,
            &Threads::between(args.cpu),
            async |patience| {
                on_stack!(carrier, S => if args.stamp {
                    throughput::send::<S>(&socket, &plan, patience, SendTime::new()).await
                } else {
                    throughput::send::<S>(&socket, &plan, patience, Zeros).await
                })
            },
        );
        tool.conclude(sent, throughput::done, |tool, _| {
            tool.rate();
            None
        })
    })
}

/// What an end that measures latency does.
fn latency_plan(
    tool: &'static str,
    count: Option<NonZeroU64>,
    run: &RunArgs,
    rate: &RateArgs,
    wants_times: bool,
) -> Result<Plan, Failure> {
    let rate = rate.rate;
    Ok(Plan {
        limit: run.limit(count, rate)?,
        warmup: run.warmup,
        rate,
        // Without times an open loop's mean would hold its pauses.
        timed: wants_times || run.interval.is_some() || rate.is_some(),
        show: Show {
            interval: run.interval,
            bar: true,
            wording: round_trips(tool),
        },
    })
}

/// What an end of a flood does.
fn throughput_plan(
    tool: &'static str,
    count: Option<NonZeroU64>,
    run: &RunArgs,
    rate: Option<Rate>,
) -> Result<Plan, Failure> {
    Ok(Plan {
        limit: run.limit(count, rate)?,
        warmup: run.warmup,
        rate,
        timed: false,
        show: Show {
            interval: run.interval,
            bar: true,
            wording: messages(tool),
        },
    })
}

const fn round_trips(tool: &'static str) -> Wording {
    Wording {
        tool,
        what: "round trips",
        time: "latency",
        factor: ONE_WAY,
    }
}

const fn messages(tool: &'static str) -> Wording {
    Wording {
        tool,
        what: "messages",
        time: "delay",
        factor: 1.0,
    }
}

/// One run of a tool: what it reports, and where to.
struct Tool {
    name: &'static str,
    outputs: Outputs,
    report: Report,
    outcome: Outcome,
    plan: Plan,
    doubts: Doubts,
    warnings: Vec<Warning>,
    /// Threads of this host that are to be busy at the same time.
    threads: u64,
    delays: Option<Delays>,
}

impl Tool {
    fn open(
        report: &ReportArgs,
        distribution: Option<&DistributionArgs>,
        plan: &Plan,
        cpu: &CpuArgs,
    ) -> Result<Self, Failure> {
        cpu.check()?;
        let name = plan.show.wording.tool;
        let mut tool = Self {
            name,
            outputs: Outputs::open(report, distribution)?,
            report: Report::new(name, env!("CARGO_PKG_VERSION")),
            outcome: Outcome::default(),
            plan: *plan,
            doubts: Doubts::before(),
            warnings: Vec::new(),
            threads: 1,
            delays: None,
        };
        tool.report.settings.extend(cpu.settings());
        Ok(tool)
    }

    fn setting(&mut self, key: &'static str, value: impl Into<Value>) {
        self.report.settings.insert(key, value.into());
    }

    /// The end's socket; what was asked for goes into the report.
    fn socket(
        &mut self,
        carrier: Carrier,
        endpoint: Endpoint,
        size: usize,
        curve: Option<Keys>,
        patience: &PatienceArgs,
    ) -> Socket {
        self.report.stack = Some(carrier.describe());
        self.setting("curve", curve.is_some());
        if endpoint.is_on_this_host() {
            // The other end wants a CPU at the same time.
            self.threads = self.threads.max(2);
        }
        self.setting("endpoint", endpoint.to_string());
        self.setting("message_size_bytes", count(size));
        self.report.settings.extend(self.plan.settings());
        if let Some(timeout) = patience.timeout {
            self.setting("timeout_s", timeout.as_secs_f64());
        }
        Socket {
            tool: self.name,
            endpoint,
            size,
            curve,
            peers: 1,
        }
    }

    /// Sees to it that there can be so many connections, `ends` of each in this
    /// process.
    fn peers(&mut self, socket: &mut Socket, args: PeersArgs, ends: usize) -> Result<(), Failure> {
        socket.peers = args.allowed(ends)?;
        self.setting("peers", count(socket.peers));
        Ok(())
    }

    /// Where the other end of an inproc tool runs; said where it is not on a
    /// thread of its own.
    fn place(&mut self, args: PlaceArgs) -> Place {
        let place = args.place();
        self.setting("same_thread", place == Place::SameThread);
        if place == Place::SameThread {
            self.threads = 1;
            note(
                self.name,
                &"both ends are tasks of one thread: this is no inter-thread test",
            );
        }
        place
    }

    /// Prints the lines that upstream's inproc tools print before their run,
    /// where the count is known by then; says whether it did.
    fn before(&self, header: impl FnOnce(u64) -> String) -> Result<Option<()>, Failure> {
        match self.plan.limit.count() {
            Some(count) => Ok(Some(self.outputs.before(&header(count))?)),
            None => Ok(None),
        }
    }

    /// Adds a latency to the outcome; returns upstream's line of it.
    fn latency(&mut self, measured: &Measured) -> String {
        let finished = &measured.finished;
        let sequential = self.plan.rate.is_none() && measured.shares.is_empty();
        let mean = match &finished.times {
            Some(times) if !sequential => times.response().mean(),
            _ => mean(&finished.measurement),
        };
        self.outcome.latency_mean_ns = mean.map(|mean| float(nanos(mean)) * ONE_WAY);
        self.times(finished);
        self.rate();
        libzmq_text::latency(mean.map(libzmq_text::one_way))
    }

    /// Adds a throughput to the outcome; returns upstream's lines of it.
    fn throughput(&mut self, measured: &Measured, size: usize) -> String {
        let rate = Throughput::new(&measured.finished.measurement, count(size));
        if (measured.completed(), measured.untimed) == (1, 1) {
            self.warnings.push(Warning::NoThroughput);
        }
        self.outcome.messages = Some(measured.completed());
        self.outcome.set_throughput(&rate);
        self.stamps();
        libzmq_text::throughput(&rate)
    }

    /// Reports what was measured, whole or not, and says how the tool exits.
    /// `lines` adds to the outcome, and returns what goes to stdout.
    fn conclude(
        mut self,
        result: Result<Measured, Ended>,
        done: fn(u64, RunLimit) -> Done,
        lines: impl FnOnce(&mut Self, &Measured) -> Option<String>,
    ) -> Result<Exit, Failure> {
        let mut text = None;
        let mut times = None;
        let ended = match result {
            Err(ended) => Some(ended),
            Ok(mut measured) => {
                let ended = measured.ended(done(measured.completed(), self.plan.limit));
                let finished = &measured.finished;
                self.outcome = Outcome::new(
                    self.plan.show.wording.what,
                    &finished.measurement,
                    finished.warmup,
                    finished.usage,
                );
                let one_way = (self.plan.show.wording.factor < 1.0).then_some(ONE_WAY);
                self.report.intervals = finished
                    .intervals
                    .iter()
                    .map(|interval| IntervalReport::new(interval, one_way))
                    .collect();
                text = lines(&mut self, &measured);
                self.shares(&measured.shares);
                self.report.result = Some(std::mem::take(&mut self.outcome));
                times = measured.finished.times;
                ended
            }
        };
        if self.report.result.is_some() {
            self.doubt();
        }
        let (failure, exit) = match ended {
            None => (None, Exit::Success),
            Some(Ended::Interrupted(done)) => {
                note(self.name, &format!("interrupted after {done}"));
                self.report.stop = StopReason::Interrupted.as_str();
                (None, Exit::Interrupted)
            }
            Some(Ended::Failed(error)) => (Some(Failure::run(&error)), Exit::Failure),
        };
        if exit == Exit::Success {
            self.report.stop = StopReason::Complete.as_str();
        }
        self.report.error = failure.as_ref().map(ToString::to_string);
        let table = match (&times, &self.delays) {
            (Some(times), _) => Some(Table {
                histogram: times.response(),
                factor: ONE_WAY,
            }),
            (None, Some(delays)) => Some(Table {
                histogram: &delays.times,
                factor: 1.0,
            }),
            (None, None) => None,
        };
        let published = self.outputs.publish(&self.report, text.as_deref(), table);
        match failure {
            Some(failure) => Err(failure.reported()),
            None => published
                .map(|()| exit)
                .map_err(|error| Failure::from(error).reported()),
        }
    }

    /// Says what is to be doubted, on stderr and in the report.
    fn doubt(&mut self) {
        let clock_read = self.plan.timed || self.delays.is_some();
        let mut warnings = self.doubts.after(clock_read, self.threads);
        warnings.append(&mut self.warnings);
        for warning in &warnings {
            note(self.name, &format!("warning: {warning}"));
        }
        self.report.warn(&warnings);
    }

    /// Adds what went over each connection, where there are several.
    fn shares(&mut self, shares: &[u64]) {
        if let (Some(least), Some(most), true) =
            (shares.iter().min(), shares.iter().max(), shares.len() > 1)
        {
            let what = self.plan.show.wording.what;
            note(
                self.name,
                &format!(
                    "connections: {}, of {least} to {most} {what} each",
                    shares.len()
                ),
            );
            self.outcome.peers = shares
                .iter()
                .map(|&operations| Peer { operations })
                .collect();
        }
    }

    /// Adds the distributions of the round trips.
    fn times(&mut self, finished: &Finished<StackError>) {
        let Some(times) = &finished.times else {
            return;
        };
        let Some(summary) = LatencySummary::new(times.response()) else {
            return;
        };
        self.outcome.round_trip_ns = Some(summary.into());
        self.outcome.latency_ns = Some(summary.scaled(ONE_WAY).into());
        self.outcome.service_time_ns = times
            .service()
            .and_then(LatencySummary::new)
            .map(Into::into);
        self.warnings.extend(few_samples(summary.samples));
        self.clipped(times.response().clipped());
    }

    /// Adds the delays of stamped messages, and what is to be doubted in them.
    fn stamps(&mut self) {
        let Some(delays) = &self.delays else {
            return;
        };
        let Some(summary) = LatencySummary::new(&delays.times) else {
            return;
        };
        let (clipped, negative, from_elsewhere) = (
            delays.times.clipped(),
            delays.negative,
            delays.from_elsewhere,
        );
        self.outcome.one_way_delay_ns = Some(summary.into());
        self.warnings.extend(few_samples(summary.samples));
        self.clipped(clipped);
        if from_elsewhere > 0 {
            self.warnings.push(Warning::Other {
                kind: "two_clocks",
                message: format!(
                    "{from_elsewhere} messages were stamped on another host; their delay also holds what the two wall clocks differ by"
                ),
            });
        }
        if negative > 0 {
            self.warnings.push(Warning::Other {
                kind: "clock_went_back",
                message: format!(
                    "{negative} messages arrived before they were sent, as the wall clock tells; they count as 0"
                ),
            });
        }
    }

    fn clipped(&mut self, samples: u64) {
        if samples > 0 {
            self.warnings.push(Warning::Clipped { samples });
        }
    }

    /// Adds the schedule of an open loop.
    fn rate(&mut self) {
        let Some(rate) = self.plan.rate else {
            return;
        };
        self.warnings.extend(self.outcome.set_rate(rate));
        let achieved = self.outcome.operations_per_s;
        note(
            self.name,
            &format!(
                "rate: {}/s asked, {:.1}/s achieved",
                rate.per_second(),
                achieved.unwrap_or_default()
            ),
        );
    }
}

/// Runs an end on a thread and a runtime of its own, with the signals taken
/// over.
fn run<T: Send>(
    patience: &PatienceArgs,
    threads: &Threads,
    work: impl AsyncFnOnce(&Patience) -> Result<T, Ended> + Send,
) -> Result<T, Ended> {
    let measured = on_own_thread(|| {
        threads.run(0, || async {
            let patience = Patience {
                interrupt: threads.interrupt()?,
                timeout: patience.timeout,
                threads: threads.clone(),
            };
            work(&patience).await
        })?
    });
    measured.map_err(Error::Runtime)?
}
