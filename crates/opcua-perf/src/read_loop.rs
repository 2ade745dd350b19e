//! The read, over and over: what is done, and what is kept of it.
//!
//! `ReadLoop` is the operation. It judges each response; a read that failed
//! is counted by its `StatusCode`, and is in no time and no row.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use opcua::types::{DataValue, NodeId, StatusCode, Variant, VariantTypeId};
use perf_core::clock::{Clock, Timestamp};
use perf_core::histogram::LatencyHistogram;
use perf_core::load::Operation;
use perf_core::units::{float, nanos, per_second};

use crate::clock::NANOS_PER_DAY;
use crate::stack::{CallError, ReadSession, StackError};

/// The node that open62541's read performance server exposes.
#[must_use]
pub fn default_node() -> NodeId {
    NodeId::new(1, 42_u32)
}

/// Where the times of the rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// The values are the server's nanoseconds of the day; a time is the
    /// difference of two successive ones, as upstream has it.
    Server,
    /// A time is the difference of the arrivals of two successive responses,
    /// by the client's clock.
    Client,
}

/// What one read was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Failed,
    /// It has no time: the first one, the one over midnight, the one after a
    /// failure, or one whose value fell.
    Untimed,
    /// Nanoseconds since the last one, by the server's clock.
    Server(u64),
    /// Its time is the client's.
    Client,
}

/// How many reads failed, and with what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures(BTreeMap<u32, u64>);

impl Failures {
    fn add(&mut self, status: StatusCode) {
        *self.0.entry(status.bits()).or_default() += 1;
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each code by its name, and how often it came.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.0
            .iter()
            .map(|(&bits, &times)| (StatusCode::from(bits).to_string(), times))
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, times)) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{name} {times}")?;
        }
        Ok(())
    }
}

/// Why a loop cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The connection, the session or the server is gone.
    #[error(transparent)]
    Lost(#[from] StackError),
    /// The response has not one value for each node.
    #[error("the server answered {got} values for {expected} nodes")]
    Count {
        /// Nodes of the request.
        expected: usize,
        /// Values of the response.
        got: usize,
    },
    /// The value is no longer of the type that it was.
    #[error("the value is {got}, not UInt64 any more")]
    Type {
        /// What came.
        got: String,
    },
}

/// One Read after the other.
pub(crate) struct ReadLoop<S, C, F> {
    session: S,
    judge: Judge,
    /// None until the timed reads begin.
    rows: Option<Rows<C, F>>,
}

impl<S: ReadSession, C: Clock, F: FnMut(Row)> ReadLoop<S, C, F> {
    /// A loop over a session whose plan has this many nodes. Nothing is kept
    /// of its reads until [`Self::begin`].
    pub(crate) fn new(session: S, nodes: usize, source: TimeSource) -> Self {
        Self {
            session,
            judge: Judge::new(nodes, source),
            rows: None,
        }
    }

    /// From now on reads are kept in rows of `every`, which `on_row` gets. What
    /// failed before is forgotten.
    pub(crate) fn begin(&mut self, clock: C, every: NonZeroU64, on_row: F) {
        self.judge.failures = Failures::default();
        self.judge.fell = 0;
        let row_start = clock.now();
        self.rows = Some(Rows {
            clock,
            every: every.get(),
            on_row,
            row: Row::default(),
            row_start,
            whole: 0,
            last_arrival: None,
            times: LatencyHistogram::new(),
            all: Row::default(),
        });
    }

    pub(crate) const fn judge(&self) -> &Judge {
        &self.judge
    }

    /// What was kept since [`Self::begin`].
    pub(crate) const fn rows(&self) -> Option<&Rows<C, F>> {
        self.rows.as_ref()
    }

    pub(crate) fn into_session(self) -> S {
        self.session
    }
}

impl<S: ReadSession, C: Clock, F: FnMut(Row)> Operation for ReadLoop<S, C, F> {
    type Error = LoopError;

    #[inline]
    async fn execute(&mut self, _: u64) -> Result<u64, LoopError> {
        let outcome = match self.session.read().await {
            Ok(values) => self.judge.values(values)?,
            Err(CallError::Refused(status)) => self.judge.refused(status),
            Err(CallError::Lost(error)) => return Err(error.into()),
        };
        if let Some(rows) = &mut self.rows {
            rows.take(outcome);
        }
        Ok(u64::from(outcome != Outcome::Failed))
    }
}

/// Tells what each read was, and keeps count of those that failed.
#[derive(Debug)]
pub(crate) struct Judge {
    nodes: usize,
    source: TimeSource,
    last_value: Option<u64>,
    failures: Failures,
    failing: bool,
    fell: u64,
}

impl Judge {
    fn new(nodes: usize, source: TimeSource) -> Self {
        Self {
            nodes,
            source,
            last_value: None,
            failures: Failures::default(),
            failing: false,
            fell: 0,
        }
    }

    /// What failed, by `StatusCode`; a read of several nodes counts once for
    /// each of them that failed.
    pub(crate) const fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Whether the last read failed.
    pub(crate) const fn failing(&self) -> bool {
        self.failing
    }

    /// How often the value was less than the one before, and it was not
    /// midnight.
    pub(crate) const fn fell(&self) -> u64 {
        self.fell
    }

    fn refused(&mut self, status: StatusCode) -> Outcome {
        self.failures.add(status);
        self.failing = true;
        self.last_value = None;
        Outcome::Failed
    }

    fn values(&mut self, values: &[DataValue]) -> Result<Outcome, LoopError> {
        if values.len() != self.nodes {
            return Err(LoopError::Count {
                expected: self.nodes,
                got: values.len(),
            });
        }
        self.failing = false;
        for status in values.iter().filter_map(|value| value.status) {
            if status.is_bad() {
                self.failing = true;
                self.failures.add(status);
            }
        }
        if self.failing {
            self.last_value = None;
            return Ok(Outcome::Failed);
        }
        if self.source == TimeSource::Client {
            return Ok(Outcome::Client);
        }
        let value = values.first().and_then(|value| value.value.as_ref());
        let Some(&Variant::UInt64(now)) = value else {
            return Err(LoopError::Type {
                got: type_name(value),
            });
        };
        let Some(last) = self.last_value.replace(now) else {
            return Ok(Outcome::Untimed);
        };
        if now >= last {
            return Ok(Outcome::Server(now - last));
        }
        if last - now < NANOS_PER_DAY / 2 {
            self.fell += 1;
        }
        Ok(Outcome::Untimed)
    }
}

/// The type of a value, as people call it.
pub(crate) fn type_name(value: Option<&Variant>) -> String {
    match value.map(Variant::type_id) {
        None | Some(VariantTypeId::Empty) => "nothing".to_owned(),
        Some(VariantTypeId::Array(of, _)) => format!("an array of {of:?}"),
        Some(VariantTypeId::Scalar(scalar)) => format!("{scalar:?}"),
    }
}

/// What is kept of the reads that were right.
#[derive(Debug)]
pub(crate) struct Rows<C, F> {
    clock: C,
    every: u64,
    on_row: F,
    row: Row,
    row_start: Timestamp,
    /// Rows that are whole.
    whole: u64,
    /// When the last response came, where the client's clock counts.
    last_arrival: Option<Timestamp>,
    times: LatencyHistogram,
    all: Row,
}

impl<C: Clock, F: FnMut(Row)> Rows<C, F> {
    /// How many were whole, and were given away.
    pub(crate) const fn whole(&self) -> u64 {
        self.whole
    }

    /// All reads as one row, over the time that the run took.
    pub(crate) fn total(&self, elapsed: Duration) -> Row {
        let mut total = self.all;
        total.merge(&self.row);
        Row { elapsed, ..total }
    }

    /// The times between successive values.
    pub(crate) const fn times(&self) -> &LatencyHistogram {
        &self.times
    }

    #[inline]
    fn take(&mut self, outcome: Outcome) {
        let time = match outcome {
            Outcome::Failed => {
                self.row.failed += 1;
                self.last_arrival = None;
                return;
            }
            Outcome::Untimed => None,
            Outcome::Server(ns) => Some(ns),
            Outcome::Client => {
                let now = self.clock.now();
                self.last_arrival
                    .replace(now)
                    .map(|last| nanos(now.since(last)))
            }
        };
        if let Some(ns) = time {
            self.times.record(Duration::from_nanos(ns));
            self.row.times.add(ns);
        }
        self.row.reads += 1;
        if self.row.reads >= self.every {
            self.end_row();
        }
    }

    #[cold]
    fn end_row(&mut self) {
        let now = self.clock.now();
        self.row.elapsed = now.since(self.row_start);
        (self.on_row)(self.row);
        self.whole += 1;
        self.all.merge(&self.row);
        self.row = Row::default();
        self.row_start = now;
    }
}

/// A number of reads in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    reads: u64,
    failed: u64,
    elapsed: Duration,
    times: Times,
}

impl Row {
    /// Reads that were right.
    #[must_use]
    pub const fn reads(&self) -> u64 {
        self.reads
    }

    /// Reads that failed.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// How long they took, by the client's clock.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Reads that were right, a second, by the client's clock; `None` in no
    /// time.
    #[must_use]
    pub fn reads_per_s(&self) -> Option<f64> {
        per_second(self.reads, self.elapsed)
    }

    /// The times between successive values.
    #[must_use]
    pub const fn times(&self) -> &Times {
        &self.times
    }

    /// Adds another row's reads; the elapsed time stays.
    fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.failed += other.failed;
        self.times.merge(&other.times);
    }

    #[cfg(test)]
    pub(crate) fn of(reads: u64, elapsed: Duration, times: &[u64]) -> Self {
        let mut row = Self {
            reads,
            elapsed,
            ..Self::default()
        };
        for &ns in times {
            row.times.add(ns);
        }
        row
    }
}

/// Times in nanoseconds, as their number, sum and extremes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    number: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Times {
    #[inline]
    fn add(&mut self, ns: u64) {
        self.merge(&Self {
            number: 1,
            sum: ns,
            min: ns,
            max: ns,
        });
    }

    #[inline]
    fn merge(&mut self, other: &Self) {
        if other.number == 0 {
            return;
        }
        self.min = if self.number == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.number += other.number;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The mean; `None` when there is no time.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.number > 0).then(|| float(self.sum) / float(self.number))
    }

    /// The shortest; `None` when there is no time.
    #[must_use]
    pub fn min_ns(&self) -> Option<u64> {
        (self.number > 0).then_some(self.min)
    }

    /// The longest; `None` when there is no time.
    #[must_use]
    pub fn max_ns(&self) -> Option<u64> {
        (self.number > 0).then_some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use perf_core::clock::ManualClock;
    use perf_core::limit::{RunLimit, StopReason};
    use perf_core::load::{Run, closed_loop};
    use perf_core::recorder::Discard;
    use std::cell::RefCell;

    use super::*;

    /// Answers what it is told, each after a microsecond.
    struct Scripted<'a> {
        clock: &'a ManualClock,
        answers: std::vec::IntoIter<Result<Vec<DataValue>, StatusCode>>,
        last: Vec<DataValue>,
    }

    impl ReadSession for Scripted<'_> {
        async fn read(&mut self) -> Result<&[DataValue], CallError> {
            self.clock.advance(Duration::from_micros(1));
            match self.answers.next() {
                Some(Ok(values)) => {
                    self.last = values;
                    Ok(&self.last)
                }
                Some(Err(status)) => Err(CallError::Refused(status)),
                None => Err(StackError::Closed.into()),
            }
        }

        async fn limit(&mut self) -> Option<u32> {
            None
        }

        async fn close(self) {}
    }

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(future)
    }

    struct Ran {
        rows: Vec<Row>,
        total: Row,
        times: u64,
        failures: Failures,
        fell: u64,
        result: Result<(), LoopError>,
    }

    fn run(
        answers: Vec<Result<Vec<DataValue>, StatusCode>>,
        source: TimeSource,
        row_every: u64,
    ) -> Ran {
        let clock = ManualClock::default();
        let right = answers.iter().filter(|answer| is_right(answer)).count();
        let number = NonZeroU64::new(right as u64).unwrap();
        let nodes = answers
            .iter()
            .find_map(|answer| answer.as_ref().ok().map(Vec::len))
            .unwrap_or(1);
        let session = Scripted {
            clock: &clock,
            answers: answers.into_iter(),
            last: Vec::new(),
        };
        let mut reads = ReadLoop::new(session, nodes, source);
        let rows = RefCell::new(Vec::new());
        let every = NonZeroU64::new(row_every).unwrap();
        reads.begin(&clock, every, |row| rows.borrow_mut().push(row));
        let mut run = Run::new(&clock, Discard);
        let result = block_on(closed_loop(&mut reads, RunLimit::Count(number), &mut run));
        let (measurement, _) = run.finish(StopReason::Complete);
        let kept = reads.rows().unwrap();
        let ran = Ran {
            total: kept.total(measurement.elapsed),
            times: kept.times().len(),
            failures: reads.judge().failures().clone(),
            fell: reads.judge().fell(),
            result,
            rows: Vec::new(),
        };
        drop(reads);
        Ran {
            rows: rows.into_inner(),
            ..ran
        }
    }

    fn is_right(answer: &Result<Vec<DataValue>, StatusCode>) -> bool {
        answer
            .as_ref()
            .is_ok_and(|values| values.iter().all(|value| !value.status().is_bad()))
    }

    fn value(ns: u64) -> Vec<DataValue> {
        vec![DataValue::value_only(ns)]
    }

    #[test]
    fn times_are_differences_of_the_servers_values() {
        let ran = run(
            vec![
                Ok(value(100)),
                Ok(value(130)),
                Ok(value(190)),
                Ok(value(200)),
            ],
            TimeSource::Server,
            2,
        );
        assert_eq!(
            ran.rows,
            [
                Row::of(2, Duration::from_micros(2), &[30]),
                Row::of(2, Duration::from_micros(2), &[60, 10]),
            ]
        );
        assert_eq!(
            ran.total,
            Row::of(4, Duration::from_micros(4), &[30, 60, 10])
        );
        assert_eq!(ran.times, 3);
    }

    #[test]
    fn midnight_is_a_read_without_a_time() {
        let ran = run(
            vec![Ok(value(NANOS_PER_DAY - 5)), Ok(value(20)), Ok(value(50))],
            TimeSource::Server,
            3,
        );
        assert_eq!(ran.rows, [Row::of(3, Duration::from_micros(3), &[30])]);
        assert_eq!(ran.fell, 0);
    }

    #[test]
    fn a_clock_that_goes_back_is_noticed() {
        let ran = run(
            vec![Ok(value(50)), Ok(value(40)), Ok(value(45))],
            TimeSource::Server,
            3,
        );
        assert_eq!(ran.rows, [Row::of(3, Duration::from_micros(3), &[5])]);
        assert_eq!(ran.fell, 1);
    }

    #[test]
    fn a_failed_read_is_counted_and_has_no_time() {
        let bad = StatusCode::BadNoCommunication;
        let failed = || Ok(vec![DataValue::from((Variant::Empty, bad))]);
        let ran = run(
            vec![
                Ok(value(100)),
                failed(),
                Ok(value(900)),
                Err(StatusCode::BadTooManyOperations),
                Ok(value(1000)),
                Ok(value(1010)),
            ],
            TimeSource::Server,
            4,
        );
        let mut expected = Row::of(4, Duration::from_micros(6), &[10]);
        expected.failed = 2;
        assert_eq!(ran.rows, [expected]);
        assert_eq!(
            ran.failures.to_string(),
            "BadTooManyOperations 1, BadNoCommunication 1"
        );
    }

    #[test]
    fn other_nodes_are_timed_by_the_clients_clock() {
        let text = || Ok(vec![DataValue::value_only("text")]);
        let ran = run(
            vec![
                text(),
                text(),
                Err(StatusCode::BadNoCommunication),
                text(),
                text(),
            ],
            TimeSource::Client,
            4,
        );
        let mut expected = Row::of(4, Duration::from_micros(5), &[1000, 1000]);
        expected.failed = 1;
        assert_eq!(ran.rows, [expected]);
    }

    #[test]
    fn an_uncertain_value_is_a_value() {
        let uncertain = DataValue::from((Variant::UInt64(7), StatusCode::UncertainInitialValue));
        let ran = run(
            vec![Ok(vec![uncertain]), Ok(value(9))],
            TimeSource::Server,
            2,
        );
        assert_eq!(ran.rows[0].times().max_ns(), Some(2));
        assert!(ran.failures.is_empty());
    }

    #[test]
    fn wrong_responses_end_the_loop() {
        let two = vec![DataValue::value_only(1_u64), DataValue::value_only(2_u64)];
        let ran = run(vec![Ok(value(1)), Ok(two)], TimeSource::Server, 9);
        assert_eq!(
            ran.result.unwrap_err().to_string(),
            "the server answered 2 values for 1 nodes"
        );
        let ran = run(
            vec![Ok(value(1)), Ok(vec![DataValue::value_only(1.5_f64)])],
            TimeSource::Server,
            9,
        );
        let error = ran.result.unwrap_err().to_string();
        assert!(error.contains("Double"), "{error}");
        assert_eq!(ran.total.reads(), 1);
        assert!(ran.rows.is_empty());
    }
}
