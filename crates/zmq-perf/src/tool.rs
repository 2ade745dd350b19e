//! Each tool, from its arguments to its exit code.

use std::process::ExitCode;

use perf_core::cli::{CpuArgs, DistributionArgs, PatienceArgs, ReportArgs, note, run_main};
use perf_core::exit::{Exit, Failure};
use perf_core::limit::{Rate, RunLimit, StopReason};
use perf_core::measure::{Finished, Plan};
use perf_core::monitor::{Show, Wording};
use perf_core::report::outputs::{Outputs, Table};
use perf_core::report::{IntervalReport, Outcome, Report};
use perf_core::runtime::{Interrupt, current_thread, run_to_end};
use perf_core::summary::{LatencySummary, Throughput, mean};
use perf_core::units::{count, float, nanos};
use perf_core::warning::{Doubts, Warning, few_samples};
use serde_json::Value;

use crate::cli::{LocalLat, LocalThr, RemoteLat, RemoteThr, Target, loopback_first};
use crate::endpoint::Endpoint;
use crate::error::{Done, Ended, Error};
use crate::session::{Measured, Patience};
use crate::stack::{Socket, StackError, StackName, on_stack};
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
        let mut tool = Tool::open(&args.report, None, &plan, &args.cpu)?;
        let socket = tool.socket(
            args.stack.choose(),
            args.endpoint,
            args.size,
            &args.patience,
        );
        let served = run(&args.patience, &args.cpu, async |patience| {
            on_stack!(args.stack.choose(), S => {
                latency::reply::<S>(&socket, &plan, patience, |_| ()).await
            })
        });
        tool.conclude(served, latency::done, |_, _| None)
    })
}

/// The program `remote_lat`.
#[must_use]
pub fn remote_lat() -> ExitCode {
    run_main(loopback_first(), |args: RemoteLat| {
        let rate = args.rate.rate;
        let plan = Plan {
            limit: args.run.limit(args.count, rate)?,
            warmup: args.run.warmup,
            rate,
            // Without times an open loop's mean would hold its pauses.
            timed: args.report.wants_times(&args.distribution)
                || args.run.interval.is_some()
                || rate.is_some(),
            show: Show {
                interval: args.run.interval,
                bar: true,
                wording: round_trips("remote_lat"),
            },
        };
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        let endpoint = args.target.endpoint()?;
        let socket = tool.socket(args.stack.choose(), endpoint, args.size, &args.patience);
        let measured = run(&args.patience, &args.cpu, async |patience| {
            on_stack!(args.stack.choose(), S => match args.target {
                Target::Endpoint(_) => latency::request::<S>(&socket, &plan, patience).await,
                Target::Loopback => latency::loopback::<S>(&socket, &plan, patience).await,
            })
        });
        tool.conclude(measured, latency::done, |tool, measured| {
            let finished = &measured.finished;
            let mean = match (&finished.times, rate) {
                (Some(times), Some(_)) => times.response().mean(),
                _ => mean(&finished.measurement),
            };
            tool.outcome.latency_mean_ns = mean.map(|mean| float(nanos(mean)) * ONE_WAY);
            tool.times(finished);
            tool.rate(rate);
            let trips = finished.measurement.completed;
            (trips > 0)
                .then(|| libzmq_text::latency(args.size, trips, mean.map(libzmq_text::one_way)))
        })
    })
}

/// The program `local_thr`.
#[must_use]
pub fn local_thr() -> ExitCode {
    run_main(loopback_first(), |args: LocalThr| {
        args.load.check(args.stamp)?;
        let plan = Plan {
            limit: args.run.limit(args.load.count, None)?,
            warmup: args.run.warmup,
            rate: None,
            timed: false,
            show: Show {
                interval: args.run.interval,
                bar: true,
                wording: messages("local_thr"),
            },
        };
        let mut tool = Tool::open(&args.report, Some(&args.distribution), &plan, &args.cpu)?;
        let loopback = args.target == Target::Loopback;
        tool.setting("stamp", args.stamp);
        let size = args.load.size;
        let endpoint = args.target.endpoint()?;
        let socket = tool.socket(args.stack.choose(), endpoint, size, &args.patience);
        let mut delays = args.stamp.then(Delays::new);
        let measured = run(&args.patience, &args.cpu, async |patience| {
            let bound = |_: &Endpoint| Ok(());
            on_stack!(args.stack.choose(), S => match (loopback, &mut delays) {
                (false, None) => {
                    throughput::receive::<S>(&socket, &plan, patience, &mut Ignore, bound).await
                }
                (false, Some(delays)) => {
                    throughput::receive::<S>(&socket, &plan, patience, delays, bound).await
                }
                (true, None) => {
                    throughput::loopback::<S>(&socket, &plan, patience, &mut Ignore, Zeros).await
                }
                (true, Some(delays)) => {
                    let fill = SendTime::new();
                    throughput::loopback::<S>(&socket, &plan, patience, delays, fill).await
                }
            })
        });
        tool.delays = delays;
        tool.conclude(measured, throughput::done, |tool, measured| {
            let rate = Throughput::new(&measured.finished.measurement, count(size));
            if measured.completed() == 1 {
                tool.warnings.push(Warning::NoThroughput);
            }
            tool.outcome.messages = Some(measured.completed());
            tool.outcome.set_throughput(&rate);
            tool.stamps();
            let header = libzmq_text::throughput_header(size, measured.completed());
            Some(header + &libzmq_text::throughput(&rate))
        })
    })
}

/// The program `remote_thr`.
#[must_use]
pub fn remote_thr() -> ExitCode {
    run_main(std::env::args_os(), |args: RemoteThr| {
        args.load.check(args.stamp)?;
        let rate = args.rate.rate;
        let plan = Plan {
            limit: args.run.limit(args.load.count, rate)?,
            warmup: args.run.warmup,
            rate,
            timed: false,
            show: Show {
                interval: args.run.interval,
                bar: true,
                wording: messages("remote_thr"),
            },
        };
        let mut tool = Tool::open(&args.report, None, &plan, &args.cpu)?;
        tool.setting("stamp", args.stamp);
        let size = args.load.size;
        let socket = tool.socket(args.stack.choose(), args.endpoint, size, &args.patience);
        let sent = run(&args.patience, &args.cpu, async |patience| {
            on_stack!(args.stack.choose(), S => if args.stamp {
                throughput::send::<S>(&socket, &plan, patience, SendTime::new()).await
            } else {
                throughput::send::<S>(&socket, &plan, patience, Zeros).await
            })
        });
        tool.conclude(sent, throughput::done, |tool, _| {
            tool.rate(rate);
            None
        })
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
        cpu.pin(0)?;
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
        tool.setting("busy_poll", cpu.busy_poll);
        if !cpu.cpu.is_empty() {
            tool.setting("cpu", cpu.cpu.clone());
        }
        Ok(tool)
    }

    fn setting(&mut self, key: &'static str, value: impl Into<Value>) {
        self.report.settings.insert(key, value.into());
    }

    /// The end's socket; what was asked for goes into the report.
    fn socket(
        &mut self,
        stack: StackName,
        endpoint: Endpoint,
        size: usize,
        patience: &PatienceArgs,
    ) -> Socket {
        self.report.stack = Some(stack.describe());
        if endpoint.is_on_this_host() {
            // The other end wants a CPU at the same time.
            self.threads = 2;
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
        }
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
    fn rate(&mut self, rate: Option<Rate>) {
        let Some(rate) = rate else {
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

/// Runs an end on a runtime of its own, which takes over the signals.
fn run<T>(
    patience: &PatienceArgs,
    cpu: &CpuArgs,
    work: impl AsyncFnOnce(&Patience) -> Result<T, Ended>,
) -> Result<T, Ended> {
    let runtime = current_thread(cpu.wait()).map_err(Error::Runtime)?;
    run_to_end(runtime, async {
        let patience = Patience {
            interrupt: Interrupt::install().map_err(Error::Runtime)?,
            timeout: patience.timeout,
            cpu: cpu.clone(),
        };
        work(&patience).await
    })
}
