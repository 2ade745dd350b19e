//! The program `remote_thr`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::remote_thr()
}
