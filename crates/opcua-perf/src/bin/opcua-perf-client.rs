//! The program `opcua-perf-client`.

fn main() -> std::process::ExitCode {
    opcua_perf::cli::client()
}
