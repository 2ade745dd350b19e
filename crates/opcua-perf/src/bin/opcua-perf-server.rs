//! The program `opcua-perf-server`.

fn main() -> std::process::ExitCode {
    opcua_perf::cli::server()
}
