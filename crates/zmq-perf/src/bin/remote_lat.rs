//! The program `remote_lat`.

fn main() -> std::process::ExitCode {
    zmq_perf::tool::remote_lat()
}
