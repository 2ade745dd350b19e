//! One row a run, appended to a file that collects them.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Distribution, Report};

/// The header line, for all tools the same; a column that a tool does not
/// fill stays empty.
pub const HEADER: &str = "#started_at_unix_s,tool,version,stack,endpoint,message_size_bytes,stop,operations,elapsed_s,operations_per_s,throughput_msgs_per_s,throughput_bits_per_s,latency_mean_ns,time,samples,min_ns,p50_ns,p90_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns,mean_ns,stddev_ns,cpu_user_s,cpu_system_s,peak_memory_bytes,warnings";

/// Why a file cannot take a row.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// The system refuses.
    #[error("cannot write the CSV file {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "the CSV file {0} begins with another header; give another file, or move that one away"
    )]
    OtherHeader(PathBuf),
}

/// A file that takes a row.
#[derive(Debug)]
pub struct CsvFile {
    path: PathBuf,
    file: File,
}

impl CsvFile {
    /// Opens the file and looks at its header, or makes it, before anything is
    /// measured.
    ///
    /// # Errors
    /// When it cannot be written, or is another table.
    pub fn open(path: &Path) -> Result<Self, CsvError> {
        let failed = |source| CsvError::Io {
            path: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .read(true)
            .append(true)
            .open(path)
            .map_err(failed)?;
        let wanted = format!("{HEADER}\n");
        // Read no more than the header, whatever the file is.
        let mut found = vec![0; wanted.len()];
        let mut length = 0;
        while length < found.len() {
            match file.read(&mut found[length..]).map_err(failed)? {
                0 => break,
                more => length += more,
            }
        }
        if length == 0 {
            file.write_all(wanted.as_bytes()).map_err(failed)?;
        } else if found != wanted.as_bytes() {
            return Err(CsvError::OtherHeader(path.to_owned()));
        }
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    /// Appends the row, in one write.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(&mut self, report: &Report) -> Result<(), CsvError> {
        self.file
            .write_all(row(report).as_bytes())
            .map_err(|source| CsvError::Io {
                path: self.path.clone(),
                source,
            })
    }
}

fn row(report: &Report) -> String {
    let setting = |key| {
        report.settings.get(key).map_or_else(String::new, |value| {
            value.as_str().map_or_else(|| value.to_string(), quoted)
        })
    };
    let result = report.result.as_ref();
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let times = result.and_then(|result| {
        [
            ("latency", result.latency_ns),
            ("one_way_delay", result.one_way_delay_ns),
            ("round_trip", result.round_trip_ns),
        ]
        .into_iter()
        .find_map(|(name, times)| Some((name, times?)))
    });
    let time = |take: fn(&Distribution) -> f64| number(times.map(|(_, times)| take(&times)));
    let warnings: Vec<_> = report.warnings.iter().map(|warning| warning.kind).collect();
    let resources = result.map(|result| result.resources).unwrap_or_default();
    let columns = [
        format!("{:.3}", report.started_at_unix_s),
        report.tool.clone(),
        report.version.clone(),
        report
            .stack
            .as_ref()
            .map_or_else(String::new, |stack| stack.name.to_owned()),
        setting("endpoint"),
        setting("message_size_bytes"),
        report.stop.to_owned(),
        result.map_or_else(String::new, |result| result.operations.to_string()),
        number(result.map(|result| result.elapsed_s)),
        number(result.and_then(|result| result.operations_per_s)),
        number(result.and_then(|result| result.throughput_msgs_per_s)),
        number(result.and_then(|result| result.throughput_bits_per_s)),
        number(result.and_then(|result| result.latency_mean_ns)),
        times.map_or_else(String::new, |(name, _)| name.to_owned()),
        times.map_or_else(String::new, |(_, times)| times.samples.to_string()),
        time(|times| times.min),
        time(|times| times.p50),
        time(|times| times.p90),
        time(|times| times.p99),
        time(|times| times.p99_9),
        time(|times| times.p99_99),
        time(|times| times.max),
        time(|times| times.mean),
        time(|times| times.stddev),
        number(resources.cpu_user_s),
        number(resources.cpu_system_s),
        resources
            .peak_memory_bytes
            .map_or_else(String::new, |bytes| bytes.to_string()),
        warnings.join(" "),
    ];
    let mut row = columns.join(",");
    // Writing to a string cannot fail.
    let _ = row.write_char('\n');
    row
}

/// A text as RFC 4180 wants it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_gets_a_header_and_an_old_one_a_row() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("runs.csv");
        for _ in 0..2 {
            let report = Report::new("tool", "1.2.3");
            CsvFile::open(&path).unwrap().append(&report).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], HEADER);
        let columns = HEADER.split(',').count();
        assert_eq!(lines[1].split(',').count(), columns);
        assert_eq!(lines[2].split(',').nth(1), Some("tool"));
    }

    #[test]
    fn another_table_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.csv");
        for other in ["a,b,c\n1,2,3\n", "#", &HEADER.replace("tool", "fool")] {
            std::fs::write(&path, other).unwrap();
            let error = CsvFile::open(&path).unwrap_err();
            assert!(matches!(error, CsvError::OtherHeader(_)), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
    }

    #[test]
    fn a_text_with_a_comma_is_quoted() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("tcp://*:1"), "tcp://*:1");
    }
}
