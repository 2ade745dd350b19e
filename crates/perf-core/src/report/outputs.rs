//! Where a report goes: stdout, stderr and files, as the command line asks.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::csv::{CsvError, CsvFile};
use super::{Report, hgrm, text};
use crate::cli::{self, CannotPrint, DistributionArgs, ReportArgs};
use crate::exit::Failure;
use crate::histogram::LatencyHistogram;

/// Why a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The CSV file.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// Another file.
    #[error("cannot write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Standard output.
    #[error(transparent)]
    Stdout(#[from] CannotPrint),
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::run(&error)
    }
}

/// The distribution that `--hgrm` writes.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// The samples.
    pub histogram: &'a LatencyHistogram,
    /// From a sample to what is reported.
    pub factor: f64,
}

/// The outputs of a run, opened before it begins: a file that cannot be
/// written is known before anything is measured.
#[derive(Debug)]
pub struct Outputs {
    json: Option<Json>,
    csv: Option<CsvFile>,
    hgrm: Option<(PathBuf, File)>,
    percentiles: bool,
}

#[derive(Debug)]
enum Json {
    Stdout,
    File(PathBuf, File),
}

impl Outputs {
    /// Opens what the command line asks for.
    ///
    /// # Errors
    /// When a file cannot be written, or is another table.
    pub fn open(
        report: &ReportArgs,
        distribution: Option<&DistributionArgs>,
    ) -> Result<Self, OutputError> {
        Ok(Self {
            json: match &report.json {
                None => None,
                Some(path) if cli::is_stdout(path) => Some(Json::Stdout),
                Some(path) => Some(Json::File(path.clone(), create(path)?)),
            },
            csv: report.csv.as_deref().map(CsvFile::open).transpose()?,
            hgrm: distribution
                .and_then(|distribution| distribution.hgrm.as_ref())
                .map(|path| Ok::<_, OutputError>((path.clone(), create(path)?)))
                .transpose()?,
            percentiles: distribution.is_some_and(|distribution| distribution.percentiles),
        })
    }

    /// Prints lines that upstream prints before its run, unless the JSON goes
    /// to stdout.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn before(&self, lines: &str) -> Result<(), OutputError> {
        match self.json {
            Some(Json::Stdout) => Ok(()),
            _ => cli::print(lines),
        }
    }

    /// Writes the report to each output, and `lines` to stdout unless the JSON
    /// goes there. One that fails does not keep the others from being written.
    ///
    /// # Errors
    /// The first that failed.
    pub fn publish(
        &mut self,
        report: &Report,
        lines: Option<&str>,
        table: Option<Table<'_>>,
    ) -> Result<(), OutputError> {
        let stdout = match (&self.json, lines) {
            (Some(Json::Stdout), _) => cli::print(&report.to_json()),
            (_, Some(lines)) => cli::print(lines),
            (_, None) => Ok(()),
        };
        let json = match &mut self.json {
            Some(Json::File(path, file)) => write(path, file, &report.to_json()),
            _ => Ok(()),
        };
        let csv = match &mut self.csv {
            Some(csv) if report.result.is_some() => csv.append(report),
            _ => Ok(()),
        };
        let hgrm = match (&mut self.hgrm, table) {
            (Some((path, file)), Some(table)) => {
                write(path, file, &hgrm::render(table.histogram, table.factor))
            }
            _ => Ok(()),
        };
        if let (true, Some(result)) = (self.percentiles, &report.result) {
            // Nothing is left to be told to when stderr is gone.
            let _ = io::stderr()
                .lock()
                .write_all(text::render(result).as_bytes());
        }
        stdout?;
        json?;
        csv?;
        hgrm
    }
}

fn create(path: &Path) -> Result<File, OutputError> {
    File::create(path).map_err(|source| OutputError::File {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, file: &mut File, text: &str) -> Result<(), OutputError> {
    file.write_all(text.as_bytes())
        .map_err(|source| OutputError::File {
            path: path.to_owned(),
            source,
        })
}
