//! The program `local_lat`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::local_lat()
}
