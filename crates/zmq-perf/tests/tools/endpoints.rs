//! Endpoints that are right and still cannot be bound or reached.

use std::net::TcpListener;

use super::support::text::lines;
use super::support::{Kind, Stack, assert_line};

on_each_stack! {
    an_interface_is_bound_by_its_name,
    every_interface_is_bound_by_a_star,
    an_interface_that_does_not_exist,
    a_host_that_does_not_resolve,
    a_wildcard_cannot_be_connected_to,
    an_address_in_use,
}

/// A name that no resolver knows (RFC 6761).
const NO_HOST: &str = "eth7.invalid";

fn an_interface_is_bound_by_its_name(stack: Stack) {
    let loopback = if_addrs::get_if_addrs()
        .unwrap()
        .into_iter()
        .find(|i| i.is_loopback() && i.ip().is_ipv4())
        .unwrap();
    let bind = format!("tcp://{}:*", loopback.name);
    let stdout = stack.measure(Kind::Latency, &bind, 1, 10);
    assert_eq!(lines(Kind::Latency, &stdout).count, 10);
}

fn every_interface_is_bound_by_a_star(stack: Stack) {
    let mut local = stack.start("local_lat", &["tcp://*:*", "1", "10"]);
    let bound = local.bound();
    let port = bound.strip_prefix("tcp://0.0.0.0:").unwrap();
    let connect = format!("tcp://localhost:{port}");
    let remote = stack.run("remote_lat", &[&connect, "1", "10"]);
    assert_eq!(lines(Kind::Latency, remote.succeeded()).count, 10);
    assert_eq!(local.end().succeeded(), "");
}

fn an_interface_that_does_not_exist(stack: Stack) {
    for kind in Kind::BOTH {
        let ended = stack.run(kind.local(), &["tcp://eth7.invalid:5555", "1", "1"]);
        assert_line(
            ended.failed(1),
            "cannot bind tcp://eth7.invalid:5555: no interface named eth7.invalid (there are: ",
            "), and no host of that name",
        );
        assert_eq!(ended.stderr.len(), 1, "{ended:?}");
        assert_eq!(ended.stdout, "");
    }
}

fn a_host_that_does_not_resolve(stack: Stack) {
    for kind in Kind::BOTH {
        let endpoint = format!("tcp://{NO_HOST}:5555");
        let ended = stack.run(kind.remote(), &[&endpoint, "1", "1"]);
        assert_line(
            ended.failed(1),
            &format!("cannot connect to {endpoint}: the host {NO_HOST} does not resolve ("),
            "); check the name, or use the address",
        );
        assert_eq!(ended.stdout, "");
    }
}

fn a_wildcard_cannot_be_connected_to(stack: Stack) {
    for kind in Kind::BOTH {
        for endpoint in ["tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://*:5555"] {
            let ended = stack.run(kind.remote(), &[endpoint, "1", "1"]);
            assert_line(
                ended.failed(1),
                "cannot connect to tcp://",
                ": a wildcard cannot be connected to; \
                 write the host and port that the other end is bound to",
            );
            assert_eq!(ended.stderr.len(), 1, "{ended:?}");
        }
    }
}

fn an_address_in_use(stack: Stack) {
    let holder = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let endpoint = format!("tcp://{}", holder.local_addr().unwrap());
    for kind in Kind::BOTH {
        let ended = stack.run(kind.local(), &[&endpoint, "1", "1"]);
        assert_eq!(
            ended.failed(1),
            format!(
                "cannot bind {endpoint}: the address is in use; \
                 end the program that holds it, or use another"
            )
        );
        assert_eq!((ended.stderr.len(), ended.stdout.as_str()), (1, ""));
    }
}

#[cfg(unix)]
mod ipc {
    use std::os::unix::net::UnixListener;

    use super::super::support::place::{Place, Transport};
    use super::*;

    on_each_stack! {
        a_live_socket_is_in_use,
        a_stale_socket_is_no_obstacle,
        a_killed_end_leaves_no_obstacle,
        a_file_that_is_no_socket_is_left_alone,
        a_folder_that_is_not_there,
        the_longest_path_is_carried,
        the_socket_file_goes_with_its_end,
    }

    fn a_live_socket_is_in_use(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        let _holder = UnixListener::bind(place.path()).unwrap();
        let ended = stack.run("local_lat", &[&place.endpoint, "1", "1"]);
        assert_line(
            ended.failed(1),
            &format!("cannot bind {}: the address is in use; ", place.endpoint),
            "or use another",
        );
    }

    fn a_stale_socket_is_no_obstacle(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        drop(UnixListener::bind(place.path()).unwrap());
        assert!(place.path().exists());
        let stdout = stack.measure(Kind::Latency, &place.endpoint, 1, 10);
        assert_eq!(lines(Kind::Latency, &stdout).count, 10);
    }

    fn a_killed_end_leaves_no_obstacle(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        let mut killed = stack.start("local_thr", &[&place.endpoint, "1", "10"]);
        killed.bound();
        killed.kill();
        assert!(place.path().exists());
        let stdout = stack.measure(Kind::Throughput, &place.endpoint, 1, 10);
        assert_eq!(lines(Kind::Throughput, &stdout).count, 10);
    }

    fn a_file_that_is_no_socket_is_left_alone(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        std::fs::write(place.path(), "keep").unwrap();
        for kind in Kind::BOTH {
            for (tool, tried) in [(kind.local(), "bind"), (kind.remote(), "connect to")] {
                let ended = stack.run(tool, &[&place.endpoint, "1", "1"]);
                assert_eq!(
                    ended.failed(1),
                    format!(
                        "cannot {tried} {}: {} exists and is no socket; \
                         remove it, or use another path",
                        place.endpoint,
                        place.path().display()
                    )
                );
            }
        }
        assert_eq!(std::fs::read_to_string(place.path()).unwrap(), "keep");
    }

    fn a_folder_that_is_not_there(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        let endpoint = format!("{}/none/s", place.endpoint);
        let ended = stack.run("local_lat", &[&endpoint, "1", "1"]);
        assert_line(ended.failed(1), &format!("cannot bind {endpoint}: "), "");
    }

    fn the_longest_path_is_carried(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        let path = place.path();
        let filler = zmq_perf::endpoint::IPC_PATH_MAX - path.as_os_str().len();
        let endpoint = place.endpoint.clone() + &"x".repeat(filler);
        let stdout = stack.measure(Kind::Latency, &endpoint, 1, 10);
        assert_eq!(lines(Kind::Latency, &stdout).count, 10);
    }

    fn the_socket_file_goes_with_its_end(stack: Stack) {
        let place = Place::free(Transport::Ipc);
        stack.measure(Kind::Latency, &place.endpoint, 1, 1);
        assert!(!place.path().exists());
    }
}
