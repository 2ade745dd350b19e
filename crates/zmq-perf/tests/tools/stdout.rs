//! A stdout that does not take the result.

#[cfg(target_os = "linux")]
use std::process::Stdio;

use super::support::Stack;

on_each_stack! {
    a_reader_that_went_away_is_no_failure,
}

#[cfg(target_os = "linux")]
mod full {
    on_each_stack! { a_full_disk_is_a_failure }
    use super::a_full_disk_is_a_failure;
}

const RUNS: [&str; 2] = ["remote_lat", "local_thr"];

fn a_reader_that_went_away_is_no_failure(stack: Stack) {
    for tool in RUNS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = stack
            .start_into(writer.into(), tool, &["--loopback", "1", "10"])
            .end();
        assert_eq!(ended.succeeded(), "");
    }
}

#[cfg(target_os = "linux")]
fn a_full_disk_is_a_failure(stack: Stack) {
    for tool in RUNS {
        for arguments in [&["--loopback", "1", "10"][..], &["--help"], &["--version"]] {
            let full = std::fs::File::create("/dev/full").unwrap();
            let ended = stack.start_into(Stdio::from(full), tool, arguments).end();
            super::support::assert_line(ended.failed(1), "cannot write the result to stdout: ", "");
        }
    }
}
