//! The program `remote_lat`.

fn main() -> std::process::ExitCode {
    zmq_perf::cli::remote_lat()
}
