//! The program `local_thr`.

fn main() -> std::process::ExitCode {
    zmq_perf::cli::local_thr()
}
