//! The program `inproc_thr`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::inproc_thr()
}
