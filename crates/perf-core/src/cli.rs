//! The command line that every tool shares: flags, their checked types, and
//! `main` itself.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use crate::exit::{Exit, Failure};

/// Parses the command line of a tool (its name first), runs it, and says how it ended: the
/// whole of each tool's `main`.
///
/// A failure is one line on stderr that begins with the tool's name.
pub fn run_main<A: Parser>(
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> Result<Exit, Failure>,
) -> ExitCode {
    let exit = match A::try_parse_from(arguments) {
        Ok(args) => run(args).unwrap_or_else(|failure| {
            say::<A>(&failure);
            failure.exit()
        }),
        Err(error) => refuse::<A>(&error),
    };
    exit.into()
}

/// Prints what clap has to say: help and version on stdout, an error as one
/// line on stderr.
fn refuse<A: Parser>(error: &clap::Error) -> Exit {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return match error.print() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Exit::Failure,
            _ => Exit::Success,
        };
    }
    say::<A>(&usage_line::<A>(error));
    Exit::Usage
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

fn say<A: Parser>(message: &impl fmt::Display) {
    let command = A::command();
    note(command.get_name(), message);
}

/// One line on stderr that begins with the tool's name: diagnostics, never
/// results.
pub fn note(tool: &str, message: &impl fmt::Display) {
    // Nothing is left to be told to when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{tool}: {message}");
}

/// Writes a tool's results to stdout at once. A reader that went away is not
/// an error.
///
/// # Errors
/// [`Exit::Failure`] when stdout cannot be written, for example because the
/// disk behind it is full.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::run(&CannotPrint(error)))
        }
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to stdout")]
struct CannotPrint(#[source] io::Error);

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
