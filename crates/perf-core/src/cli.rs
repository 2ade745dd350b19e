//! The command line that every tool shares: flags, their checked types, and
//! `main` itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, Command, Parser};
use core_affinity::CoreId;
use serde_json::{Value, json};

use crate::exit::{self, Exit, Failure};
use crate::host::Build;
use crate::limit::{RATES, Rate, RunLimit};
use crate::report::outputs::OutputError;
use crate::report::{Report, Stack};
use crate::wait::Wait;

/// Parses the command line of a tool (its name first), runs it, and says how
/// it ended: the whole of each tool's `main`.
///
/// A failure is one line on stderr that begins with the tool's name, and with
/// `--json` one document, whatever failed.
pub fn run_main<A: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> Result<Exit, Failure>,
) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let result = match A::try_parse_from(&arguments) {
        Ok(args) => run(args),
        Err(error) => refuse::<A>(&error),
    };
    let exit = result.unwrap_or_else(|failure| {
        let command = A::command();
        note(command.get_name(), &failure);
        if !failure.is_reported() {
            report_failure(&command, &arguments, &failure);
        }
        failure.exit()
    });
    exit.into()
}

/// What `--version` says behind the tool's name: all that decides what a
/// figure of this program means, where `-V` has the version alone.
#[must_use]
pub fn long_version(version: &str, stacks: &[Stack]) -> String {
    let Build { profile, target } = Build::this();
    let mut text = format!("{version}\ntarget: {target}\nprofile: {profile}");
    for Stack {
        name,
        crate_name,
        version,
    } in stacks
    {
        // Writing into a string does not fail.
        let _ = write!(text, "\nstack {name}: {crate_name} {version}");
    }
    text
}

/// What stands at the end of `--help`: examples, each a command line and what
/// it is for, and the exit codes.
#[must_use]
pub fn after_help(examples: &[(&str, &str)]) -> String {
    let mut text = String::from("Examples:\n");
    for (purpose, command) in examples {
        let _ = writeln!(text, "  {purpose}:\n    {command}\n");
    }
    text + exit::TABLE
}

/// The document of a run that failed before it had a report.
fn report_failure(command: &Command, arguments: &[OsString], failure: &Failure) {
    let Some(path) = arguments.iter().find_map(json_target) else {
        return;
    };
    let mut report = Report::new(
        command.get_name(),
        command.get_version().unwrap_or_default(),
    );
    report.error = Some(failure.to_string());
    let document = report.to_json();
    // The failure is on stderr already; a second one has no place to go.
    let _ = if is_stdout(&path) {
        print(&document).is_ok()
    } else {
        std::fs::write(&path, document).is_ok()
    };
}

/// Where an argument sends the JSON, if it does.
fn json_target(argument: &OsString) -> Option<PathBuf> {
    let text = argument.to_str()?;
    match text.strip_prefix("--json")? {
        "" => Some(PathBuf::from(STDOUT)),
        rest => rest.strip_prefix('=').map(PathBuf::from),
    }
}

/// The file name that stands for stdout.
const STDOUT: &str = "-";

/// Whether a path of `--json` stands for stdout.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Prints what clap has to say: help and version on stdout; an error becomes
/// one line.
fn refuse<A: Parser>(error: &clap::Error) -> Result<Exit, Failure> {
    if !matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Err(Failure::usage(usage_line::<A>(error)));
    }
    match error.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run(&CannotPrint(error)))
        }
        _ => Ok(Exit::Success),
    }
}

/// clap's message without its layout, and the usage.
fn usage_line<A: Parser>(error: &clap::Error) -> String {
    let text = error.to_string();
    let message = text
        .split("\n\nUsage:")
        .next()
        .unwrap_or(&text)
        .split("\n\nFor more information")
        .next()
        .unwrap_or(&text)
        .trim_start_matches("error: ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let usage = A::command().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    format!("{message}; usage: {usage} (--help tells more)")
}

/// One line on stderr that begins with the tool's name: diagnostics, never
/// results.
pub fn note(tool: &str, message: &impl fmt::Display) {
    // One write, so that the lines of two processes do not mix. Nothing is left
    // to be told to when stderr is gone.
    let line = format!("{tool}: {message}\n");
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Writes a tool's results to stdout at once. A reader that went away is not
/// an error.
///
/// # Errors
/// When stdout cannot be written, for example because the disk behind it is
/// full.
pub fn print(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CannotPrint(error).into()),
        _ => Ok(()),
    }
}

/// Standard output cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to stdout")]
pub struct CannotPrint(#[source] io::Error);

/// Where the report of a run goes, beside the lines on stdout.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Print one JSON document, and nothing else, on stdout (or into FILE)
    ///
    /// Also when the run fails or is interrupted. Its shape is
    /// docs/report.schema.json.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = STDOUT)]
    pub json: Option<PathBuf>,
    /// Append one row to FILE; a new file gets a header line
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// How a distribution is shown, for tools that have one.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Report")]
pub struct DistributionArgs {
    /// Print min, p50, p90, p99, p99.9, p99.99, max, mean and stddev on stderr
    #[arg(long)]
    pub percentiles: bool,
    /// Write HdrHistogram's percentile table to FILE, for its plotter in microseconds
    #[arg(long, value_name = "FILE")]
    pub hgrm: Option<PathBuf>,
}

impl ReportArgs {
    /// Whether single operations have to be timed for what is asked for.
    #[must_use]
    pub fn wants_times(&self, distribution: &DistributionArgs) -> bool {
        self.json.is_some()
            || self.csv.is_some()
            || distribution.percentiles
            || distribution.hgrm.is_some()
    }
}

/// How long a measuring end measures, beside its count.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Measure for this long, instead of a count
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// First do the same for so many operations, or for this long, and throw
    /// the result away
    #[arg(long, value_name = "N|TIME", value_parser = count_or_time)]
    pub warmup: Option<RunLimit>,
    /// Print a line on stderr for each interval of this length
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub interval: Option<Duration>,
}

/// The schedule of an open loop.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct RateArgs {
    /// Start N operations a second, whatever became of the ones before
    ///
    /// Each one's time then runs from its intended start, so that one that had
    /// to wait for a late one shows that wait.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub rate: Option<Rate>,
}

/// How the measuring thread waits, and where it runs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct CpuArgs {
    /// Spin instead of sleeping while nothing has arrived
    ///
    /// Saves the wake-up, which is most of a short round trip, and takes a
    /// whole CPU for each end.
    #[arg(long)]
    pub busy_poll: bool,
    /// Keep the measuring thread on the first of these CPUs, and the thread of
    /// the other end or of the stack's I/O on the second, if there is one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpu: Vec<usize>,
}

impl CpuArgs {
    /// How the runtime of an end waits.
    #[must_use]
    pub const fn wait(&self) -> Wait {
        if self.busy_poll {
            Wait::Spin
        } else {
            Wait::Sleep
        }
    }

    /// What was asked for, as a report shows it.
    #[must_use]
    pub fn settings(&self) -> BTreeMap<&'static str, Value> {
        let mut settings = BTreeMap::from([("busy_poll", json!(self.busy_poll))]);
        if !self.cpu.is_empty() {
            settings.insert("cpu", json!(self.cpu));
        }
        settings
    }

    /// Refuses CPUs that this process has not. Before any thread is pinned:
    /// afterwards a thread sees no CPU but its own.
    ///
    /// # Errors
    /// The first that is not there, and those that are.
    pub fn check(&self) -> Result<(), Failure> {
        if self.cpu.is_empty() {
            return Ok(());
        }
        let there = core_affinity::get_core_ids().unwrap_or_default();
        let Some(cpu) = self
            .cpu
            .iter()
            .find(|&&cpu| there.iter().all(|id| id.id != cpu))
        else {
            return Ok(());
        };
        let there: Vec<_> = there.iter().map(|id| id.id.to_string()).collect();
        Err(Failure::usage(format!(
            "--cpu {cpu}: no such CPU for this process (there are: {})",
            there.join(", ")
        )))
    }

    /// Keeps the calling thread on one of the CPUs: `which` is 0 for the
    /// measuring thread, 1 for the other.
    ///
    /// # Errors
    /// When the platform cannot.
    pub fn pin(&self, which: usize) -> Result<(), Failure> {
        match self.cpu.get(which) {
            Some(&id) if !core_affinity::set_for_current(CoreId { id }) => Err(Failure::usage(
                format!("--cpu {id}: this system does not let a thread choose its CPU"),
            )),
            _ => Ok(()),
        }
    }
}

/// How long an end waits for the other.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Run")]
pub struct PatienceArgs {
    /// How long to wait for the other end, and for each of its messages
    ///
    /// Without it the tool waits for its peer without end, and gives up 10 s
    /// after the peer fell silent in the middle of the run.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
}

impl RunArgs {
    /// What limits the run: the count, or the duration in its place.
    ///
    /// # Errors
    /// Neither; or both, unless a rate makes them the same.
    pub fn limit(
        &self,
        count: Option<NonZeroU64>,
        rate: Option<Rate>,
    ) -> Result<RunLimit, Failure> {
        match (count, self.duration) {
            (Some(count), None) => Ok(RunLimit::Count(count)),
            (None, Some(duration)) => Ok(RunLimit::Elapsed(duration)),
            (None, None) => Err(Failure::usage("give a count or --duration")),
            (Some(count), Some(duration)) => match rate {
                Some(rate) if rate.due(count.get()) == duration => Ok(RunLimit::Count(count)),
                Some(rate) => Err(Failure::usage(format!(
                    "a count of {count} at --rate {} takes {} and not {}; leave the count or --duration out",
                    rate.per_second(),
                    humantime::format_duration(rate.due(count.get())),
                    humantime::format_duration(duration),
                ))),
                None => Err(Failure::usage(
                    "a count and --duration exclude each other; leave one out",
                )),
            },
        }
    }
}

/// A count, or a length of time with its unit.
fn count_or_time(text: &str) -> Result<RunLimit, String> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return positive_count(text).map(RunLimit::Count);
    }
    duration(text).map(RunLimit::Elapsed)
}

/// Operations a second, as a clap value parser.
fn rate(text: &str) -> Result<Rate, String> {
    text.parse().ok().and_then(Rate::new).ok_or_else(|| {
        format!(
            "expected operations a second, from {} to {}",
            RATES.start(),
            RATES.end()
        )
    })
}

/// A number that is not 0, as a clap value parser; says its bounds when it
/// refuses.
///
/// # Errors
/// What is wrong with the text, and the bounds.
pub fn positive_count(text: &str) -> Result<NonZeroU64, String> {
    let error = || format!("expected a whole number from 1 to {}", u64::MAX);
    decimal(text).and_then(NonZeroU64::new).ok_or_else(error)
}

/// A number of digits alone: no sign, no blanks, no junk behind it.
fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| u64::from_str(text).ok()).flatten()
}

/// A whole number up to `max`, as a clap value parser.
///
/// # Errors
/// What is wrong with the text, and the bounds.
pub fn number_up_to(text: &str, max: u64, unit: &str) -> Result<u64, String> {
    decimal(text)
        .filter(|&n| n <= max)
        .ok_or_else(|| format!("expected a whole number from 0 to {max}{unit}"))
}

/// A length of time that is not 0, with its unit: `10s`, `500ms`, `1m 30s`.
///
/// # Errors
/// What is wrong with the text.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration.is_zero() => {
            Err("expected a length of time above 0, for example 10s".to_owned())
        }
        Ok(duration) if duration > LONGEST_WAIT => {
            Err("expected a length of time of at most 365 days".to_owned())
        }
        Ok(duration) => Ok(duration),
        Err(error) => Err(format!("{error}; write it as 10s, 500ms or 2m")),
    }
}

/// Timers are only given lengths that they can hold on every platform.
const LONGEST_WAIT: Duration = Duration::from_hours(365 * 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser, Debug)]
    #[command(name = "tool")]
    struct Args {
        #[arg(value_name = "count", value_parser = positive_count)]
        _count: NonZeroU64,
    }

    #[test]
    fn the_long_version_tells_the_build_and_the_stacks() {
        let stack = |name, crate_name, version| Stack {
            name,
            crate_name,
            version,
        };
        let stacks = [stack("one", "crate-one", "1.2.3"), stack("two", "two", "4")];
        let build = Build::this();
        assert_eq!(
            long_version("0.1.0", &stacks),
            format!(
                "0.1.0\ntarget: {}\nprofile: {}\nstack one: crate-one 1.2.3\nstack two: two 4",
                build.target, build.profile
            )
        );
    }

    fn line(argv: &[&str]) -> String {
        usage_line::<Args>(&Args::try_parse_from(argv).unwrap_err())
    }

    #[test]
    fn a_usage_error_is_one_line() {
        assert_eq!(
            line(&["tool"]),
            "the following required arguments were not provided: <count>; usage: tool <count> (--help tells more)"
        );
        assert_eq!(
            line(&["tool", "0"]),
            "invalid value '0' for '<count>': expected a whole number from 1 to 18446744073709551615; usage: tool <count> (--help tells more)"
        );
    }

    #[test]
    fn counts_are_digits_alone() {
        for junk in [
            "",
            "0",
            "-1",
            "+1",
            " 1",
            "1 ",
            "1k",
            "0x10",
            "1.0",
            "18446744073709551616",
        ] {
            assert!(positive_count(junk).is_err(), "{junk:?}");
        }
        assert_eq!(
            positive_count("18446744073709551615").map(NonZeroU64::get),
            Ok(u64::MAX)
        );
    }

    #[test]
    fn numbers_have_a_bound_that_is_named() {
        assert_eq!(number_up_to("7", 7, ""), Ok(7));
        assert_eq!(
            number_up_to("8", 7, " [B]"),
            Err("expected a whole number from 0 to 7 [B]".to_owned())
        );
    }

    #[test]
    fn durations_need_a_unit_and_a_length() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        for junk in ["", "0s", "10", "-1s", "s", "366days"] {
            assert!(duration(junk).is_err(), "{junk:?}");
        }
    }
}
