//! The program `inproc_lat`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::inproc_lat()
}
