//! Reads upstream's lines back, to the byte.

use super::Kind;

/// The lines of `remote_lat` or `local_thr`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lines {
    pub(crate) size: usize,
    pub(crate) count: u64,
    /// Microseconds of one-way latency, or messages a second.
    pub(crate) figure: f64,
}

/// Reads stdout, which must be upstream's lines and nothing else.
pub(crate) fn lines(kind: Kind, stdout: &str) -> Lines {
    let lines: Vec<&str> = stdout.split_terminator('\n').collect();
    let number = |line: usize| {
        let text = lines.get(line).and_then(|line| line.split(' ').nth(2));
        text.unwrap_or_else(|| panic!("no number in line {line} of {stdout:?}"))
    };
    let (size, count) = (number(0), number(1));
    let (text, figure) = match kind {
        Kind::Latency => {
            let micros = number(2);
            assert_three_decimals(micros);
            let text = format!(
                "message size: {size} [B]\nroundtrip count: {count}\naverage latency: {micros} [us]\n"
            );
            (text, micros)
        }
        Kind::Throughput => {
            let (per_second, megabits) = (number(2), number(3));
            assert_three_decimals(megabits);
            let text = format!(
                "message size: {size} [B]\nmessage count: {count}\n\
                 mean throughput: {per_second} [msg/s]\nmean throughput: {megabits} [Mb/s]\n"
            );
            assert_agree(size.parse().unwrap(), per_second, megabits.parse().unwrap());
            (text, per_second)
        }
    };
    assert_eq!(stdout, text);
    Lines {
        size: size.parse().unwrap(),
        count: count.parse().unwrap(),
        figure: figure.parse().unwrap(),
    }
}

fn assert_three_decimals(number: &str) {
    let (whole, decimals) = number.split_once('.').unwrap();
    assert!(!whole.is_empty() && decimals.len() == 3, "{number}");
}

/// Mb/s are msg/s times the payload; msg/s is printed without its fraction,
/// which is worth up to one message.
fn assert_agree(size: u32, per_second: &str, megabits: f64) {
    let per_second: u64 = per_second.parse().unwrap();
    let of_one = f64::from(size) * 8.0 / 1e6;
    let expected = perf_core::units::float(per_second) * of_one;
    assert!(
        megabits > expected - 0.001 && megabits < expected + of_one + 0.001,
        "{per_second} msg/s of {size} B are not {megabits} Mb/s"
    );
}
