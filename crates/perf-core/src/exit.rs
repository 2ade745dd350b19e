//! How a tool ends: what went wrong, as one line on stderr and one exit code.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// The exit codes as every tool's help lists them.
pub const TABLE: &str = "\
Exit codes:
  0    the run is whole and every reply was right; a server or an endless client
       was ended by Ctrl-C; the reader of stdout went away
  1    it could not connect, bind or finish; a reply was wrong; an output could
       not be written
  2    the command line is wrong
  130  a counted run was interrupted; what was measured is still printed, and
       marked
";

/// The exit codes, the same for every tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The run is whole and every reply was right; a server or an endless
    /// client ended by Ctrl-C; the reader of stdout went away.
    Success,
    /// It could not connect, bind or finish; a reply was wrong; an output file
    /// could not be written.
    Failure,
    /// The command line is wrong.
    Usage,
    /// A counted run was interrupted; what was measured is still printed.
    Interrupted,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A failure of a tool: its line on stderr and its exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    reported: bool,
}

impl Failure {
    /// The command line asks for what cannot be.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self {
            exit: Exit::Usage,
            message: error.to_string(),
            reported: false,
        }
    }

    /// The run failed; the error's sources are part of its line.
    pub fn run(error: &(dyn Error + 'static)) -> Self {
        Self {
            exit: Exit::Failure,
            message: one_line(error),
            reported: false,
        }
    }

    /// The same failure, which is in a report already.
    #[must_use]
    pub fn reported(self) -> Self {
        Self {
            reported: true,
            ..self
        }
    }

    /// Whether it is in a report already.
    #[must_use]
    pub const fn is_reported(&self) -> bool {
        self.reported
    }

    /// How the tool exits.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The error and its sources on one line, each said once.
fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let said = error.to_string();
        if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        source = error.source();
    }
    line.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot bind {endpoint}")]
    struct Bind {
        endpoint: &'static str,
        source: std::io::Error,
    }

    #[test]
    fn the_line_names_each_cause_once() {
        let error = Bind {
            endpoint: "tcp://*:1",
            source: std::io::Error::other("in use\nhere"),
        };
        let failure = Failure::run(&error);
        assert_eq!(failure.to_string(), "cannot bind tcp://*:1: in use here");
        assert_eq!(failure.exit().code(), 1);
    }

    #[test]
    fn the_codes_are_those_of_the_table() {
        let codes = [Exit::Success, Exit::Failure, Exit::Usage, Exit::Interrupted].map(Exit::code);
        assert_eq!(codes, [0, 1, 2, 130]);
        let listed: Vec<u8> = TABLE
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.parse::<u8>().ok())
            .collect();
        assert_eq!(listed, codes);
    }
}
