//! The program `local_thr`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::local_thr()
}
