//! The program `local_lat`.

fn main() -> std::process::ExitCode {
    zmq_perf::cli::local_lat()
}
