//! The program `proxy_thr`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::proxy_thr()
}
