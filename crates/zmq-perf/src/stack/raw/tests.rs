//! The raw sockets: against each other, and against peers that are written out
//! byte by byte.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::stack::raw::{
    Accept, DEFAULT_LIMIT, RawError, RawPull, RawPush, RawRep, RawReq, WrongSize, handshake,
};
use crate::zmtp::{Framing, Kind, SocketType, Version, encode_frame};
use bytes::Bytes;
use omq_proto::Message as OmqMessage;
use omq_proto::proto::SocketType as OmqType;
use omq_proto::proto::command::Command as OmqCommand;
use omq_proto::proto::connection::{Connection as OmqConnection, ConnectionConfig, Role};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

/// Far more than any of this takes: a test that waits that long has hung.
const LONG: Duration = Duration::from_mins(1);

/// Streams that come when the test says so.
struct Streams<S>(UnboundedReceiver<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> Accept for Streams<S> {
    type Stream = S;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<S>> {
        match self.0.poll_recv(cx) {
            Poll::Ready(Some(stream)) => Poll::Ready(Ok(stream)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

fn streams<S>() -> (UnboundedSender<S>, Streams<S>) {
    let (sender, receiver) = unbounded_channel();
    (sender, Streams(receiver))
}

struct Listener(TcpListener);

impl Accept for Listener {
    type Stream = TcpStream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        self.0.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

async fn listener() -> (Listener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (Listener(listener), address)
}

/// Runs a test on a runtime of its own, and fails it when it hangs.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { timeout(LONG, test).await.expect("it hangs") })
}

/// Pulls `count` messages and shows each to `visit`.
async fn pull_all<A: Accept>(
    pull: &mut RawPull<A>,
    count: u64,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), RawError> {
    let mut pulled = 0;
    while pulled < count {
        pulled += pull
            .pull(count - pulled, |message| {
                visit(message);
                Ok(())
            })
            .await?;
    }
    assert_eq!(pulled, count);
    Ok(())
}

async fn push_all<S>(push: &mut RawPush<S>, count: u64) -> Result<(), RawError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pushed = 0;
    while pushed < count {
        pushed += push.push(count - pushed, |_| ()).await?;
    }
    assert_eq!(pushed, count);
    Ok(())
}

/// The other end of a pull, push, rep or req socket, spoken by the codec of
/// another project.
struct Omq<S> {
    stream: S,
    codec: OmqConnection,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Omq<S> {
    async fn new(stream: S, socket_type: OmqType) -> Self {
        let mut peer = Self {
            stream,
            codec: OmqConnection::new(ConnectionConfig::new(Role::Client, socket_type)),
        };
        while !peer.codec.is_ready() {
            peer.flush().await;
            peer.read().await;
        }
        peer.flush().await;
        peer
    }

    async fn flush(&mut self) {
        let bytes = self.codec.poll_transmit();
        self.stream.write_all(&bytes).await.unwrap();
        self.codec.advance_transmit(bytes.len());
    }

    async fn read(&mut self) {
        let mut bytes = vec![0; 4096];
        let len = self.stream.read(&mut bytes).await.unwrap();
        assert_ne!(len, 0, "the other end has closed");
        bytes.truncate(len);
        self.codec.handle_input(Bytes::from(bytes)).unwrap();
    }

    async fn send(&mut self, parts: &[&[u8]]) {
        let parts: Vec<_> = parts.iter().map(|part| part.to_vec()).collect();
        self.codec
            .send_message(&OmqMessage::multipart(parts))
            .unwrap();
        self.flush().await;
    }

    async fn receive(&mut self) -> Vec<Vec<u8>> {
        loop {
            if let Some(message) = self.codec.poll_message() {
                return (0..message.len())
                    .map(|i| message.part_slice(i).unwrap().to_vec())
                    .collect();
            }
            self.read().await;
        }
    }

    async fn ping(&mut self) {
        let ping = OmqCommand::Ping {
            ttl_deciseconds: 100,
            context: Bytes::from_static(b"are you there"),
        };
        self.codec.send_command(&ping).unwrap();
        self.flush().await;
    }
}

const PONG: &[u8] = b"\x04\x12\x04PONGare you there";

/// Reads until `bytes` has come by, and gives all that came.
async fn read_until<S: AsyncRead + Unpin>(stream: &mut S, bytes: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.windows(bytes.len()).any(|window| window == bytes) {
        assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "it ended");
    }
    read
}

const SIZES: [usize; 8] = [0, 1, 255, 256, 8192, 65_536, 300_000, 1_048_576];

#[test]
fn round_trips_of_any_size_through_pipes_of_any_size() {
    for size in SIZES {
        for pipe in [1.max(size / 1000), 70_000] {
            run(async {
                let (sender, accept) = streams();
                let (near, far) = duplex(pipe);
                sender.send(far).unwrap();
                let mut rep = RawRep::new(accept, size, DEFAULT_LIMIT);
                let client = async {
                    let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT).await?;
                    assert_eq!(connection.peer().version, Version::V3 { minor: 1 });
                    assert_eq!(connection.peer().socket_type.as_deref(), Some("REP"));
                    let mut req = RawReq::new(connection, size);
                    for _ in 0..5 {
                        req.round_trip().await?;
                    }
                    Ok(())
                };
                let server = async {
                    for _ in 0..5 {
                        rep.serve().await?;
                    }
                    assert_eq!(rep.shares(), [5]);
                    rep.finish().await
                };
                tokio::try_join!(client, server).unwrap();
            });
        }
    }
}

#[test]
fn all_that_is_pushed_is_pulled_in_order() {
    for size in SIZES {
        for pipe in [1.max(size / 1000), 70_000] {
            let count = (20_000 * pipe / (size + 2)).clamp(20, 50_000) as u64;
            run(async {
                let (sender, accept) = streams();
                let (near, far) = duplex(pipe);
                sender.send(far).unwrap();
                let pusher = async {
                    let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
                    let mut push = RawPush::new(connection, size);
                    let mut stamp = 0_u64;
                    let mut pushed = 0;
                    while pushed < count {
                        pushed += push
                            .push(count - pushed, |body| {
                                if let Some(place) = body.first_chunk_mut() {
                                    *place = stamp.to_le_bytes();
                                }
                                stamp += 1;
                            })
                            .await?;
                    }
                    assert_eq!((pushed, stamp), (count, count));
                    push.finish().await
                };
                let puller = async {
                    let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
                    let mut seen = 0_u64;
                    pull_all(&mut pull, count, |message| {
                        assert_eq!(message.len(), size);
                        if let Some(stamp) = message.first_chunk() {
                            assert_eq!(u64::from_le_bytes(*stamp), seen);
                        }
                        seen += 1;
                    })
                    .await?;
                    assert_eq!(pull.shares(), [count]);
                    Ok(())
                };
                tokio::try_join!(pusher, puller).unwrap();
            });
        }
    }
}

#[test]
fn a_lone_message_is_sent_at_once() {
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(1 << 20);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let first = pull_all(&mut pull, 1, |_| ());
        let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT);
        let pushed = async {
            let mut push = RawPush::new(connection.await?, 1);
            push.push(1, |_| ()).await?;
            Ok::<_, RawError>(push)
        };
        // The push socket lives on, so only what is written can arrive.
        let (push, ()) = tokio::try_join!(pushed, first).unwrap();
        drop(push);
    });
}

#[test]
fn many_peers_are_served_alike() {
    run(async {
        const PEERS: usize = 200;
        let (sender, accept) = streams();
        let mut rep = RawRep::new(accept, 3, DEFAULT_LIMIT);
        let clients = async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..PEERS {
                let (near, far) = duplex(64);
                sender.send(far).unwrap();
                tasks.spawn(async {
                    let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT).await?;
                    let mut req = RawReq::new(connection, 3);
                    for _ in 0..10 {
                        req.round_trip().await?;
                    }
                    Ok::<_, RawError>(())
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap()?;
            }
            Ok(())
        };
        let server = async {
            for _ in 0..PEERS * 10 {
                rep.serve().await?;
            }
            assert_eq!(rep.shares(), [10; PEERS]);
            rep.finish().await
        };
        tokio::try_join!(clients, server).unwrap();
    });
}

#[test]
fn pushers_take_turns() {
    run(async {
        const PEERS: usize = 64;
        const EACH: u64 = 20_000;
        let (sender, accept) = streams();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let pushers = async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..PEERS {
                let (near, far) = duplex(4096);
                sender.send(far).unwrap();
                tasks.spawn(async {
                    let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
                    let mut push = RawPush::new(connection, 8);
                    push_all(&mut push, EACH).await?;
                    push.finish().await
                });
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap()?;
            }
            Ok(())
        };
        let puller = async {
            pull_all(&mut pull, EACH * 64 / 2, |_| ()).await?;
            let shares = pull.shares();
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert_eq!(shares.len(), PEERS);
            assert!(most.unwrap() - least.unwrap() < EACH / 2, "{shares:?}");
            pull_all(&mut pull, EACH * 64 / 2, |_| ()).await?;
            assert_eq!(pull.shares(), [EACH; PEERS]);
            // The last peer that leaves is told of, the others were not.
            let end = pull.pull(1, |_| Ok(())).await;
            assert!(matches!(end, Err(RawError::Closed)), "{end:?}");
            Ok::<_, RawError>(())
        };
        tokio::try_join!(pushers, puller).unwrap();
    });
}

#[test]
fn nothing_is_lost_when_the_pusher_leaves_at_once() {
    for (size, count) in [(1, 1), (131_072, 40)] {
        for _ in 0..20 {
            run(async {
                let (listener, address) = listener().await;
                let pusher = async {
                    let stream = TcpStream::connect(address).await.unwrap();
                    let connection = handshake(stream, SocketType::Push, DEFAULT_LIMIT).await?;
                    let mut push = RawPush::new(connection, size);
                    push_all(&mut push, count).await?;
                    push.finish().await
                };
                let mut pull = RawPull::new(listener, DEFAULT_LIMIT);
                let puller = async {
                    pull_all(&mut pull, count, |message| assert_eq!(message.len(), size)).await?;
                    drop(pull);
                    Ok(())
                };
                tokio::try_join!(pusher, puller).unwrap();
            });
        }
    }
}

#[test]
fn a_peer_that_talks_until_the_end_does_not_cost_the_last_messages() {
    run(async {
        let (listener, address) = listener().await;
        let pusher = async {
            let stream = TcpStream::connect(address).await.unwrap();
            let connection = handshake(stream, SocketType::Push, DEFAULT_LIMIT).await?;
            let mut push = RawPush::new(connection, 100_000);
            push_all(&mut push, 30).await?;
            push.finish().await
        };
        let puller = async {
            let (stream, _) = listener.0.accept().await.unwrap();
            let mut peer = Omq::new(stream, OmqType::Pull).await;
            for _ in 0..30 {
                peer.ping().await;
                assert_eq!(peer.receive().await[0].len(), 100_000);
            }
            // A heartbeat that crosses the end.
            peer.ping().await;
            while peer.stream.read(&mut [0; 4096]).await.unwrap() > 0 {}
            Ok(())
        };
        tokio::try_join!(pusher, puller).unwrap();
    });
}

#[test]
fn a_slow_puller_slows_the_pusher() {
    run(async {
        let (near, mut far) = duplex(64 * 1024);
        let pusher = async {
            let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
            let mut push = RawPush::new(connection, 1000);
            let mut pushed = 0;
            let stuck = async {
                loop {
                    pushed += push.push(u64::MAX, |_| ()).await?;
                }
            };
            let stuck: Result<Result<(), RawError>, _> =
                timeout(Duration::from_millis(50), stuck).await;
            assert!(stuck.is_err(), "{stuck:?}");
            assert!(pushed < 1000, "{pushed}");
            Ok::<_, RawError>(push)
        };
        let peer = Omq::new(&mut far, OmqType::Pull);
        let (push, _peer) = tokio::join!(pusher, peer);
        drop(push.unwrap());
    });
}

#[test]
fn a_call_that_was_dropped_tears_no_frame() {
    run(async {
        let (near, far) = duplex(100);
        let pusher = async {
            let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
            let mut push = RawPush::new(connection, 1000);
            let dropped = timeout(Duration::from_millis(10), push.push(3, |_| ())).await;
            assert!(dropped.is_err());
            Ok::<_, RawError>(push)
        };
        let (push, mut peer) = tokio::join!(pusher, Omq::new(far, OmqType::Pull));
        let mut push = push.unwrap();
        let again = async {
            push.push(2, |body| body.fill(7)).await?;
            push.finish().await
        };
        let receive = async {
            for fill in [0, 0, 0, 7, 7] {
                assert_eq!(peer.receive().await, [vec![fill; 1000]]);
            }
            drop(peer);
            Ok(())
        };
        tokio::try_join!(again, receive).unwrap();
    });
}

#[test]
fn a_round_trip_that_was_dropped_is_ended_by_the_next() {
    run(async {
        let (near, far) = duplex(100);
        let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT);
        let (connection, mut peer) = tokio::join!(connection, Omq::new(far, OmqType::Rep));
        let mut req = RawReq::new(connection.unwrap(), 1000);
        let dropped = timeout(Duration::from_millis(10), req.round_trip()).await;
        assert!(dropped.is_err());
        let echo = async {
            for _ in 0..2 {
                let request = peer.receive().await;
                let parts: Vec<_> = request.iter().map(Vec::as_slice).collect();
                peer.send(&parts).await;
            }
            Ok(())
        };
        let round_trips = async {
            req.round_trip().await?;
            req.round_trip().await
        };
        tokio::try_join!(echo, round_trips).unwrap();
    });
}

#[test]
fn heartbeats_are_answered_by_every_socket() {
    // PULL and REP, while they wait.
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(4096);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Push).await;
            peer.ping().await;
            read_until(&mut peer.stream, PONG).await;
        };
        tokio::select! {
            end = pull.pull(1, |_| Ok(())) => panic!("{end:?}"),
            () = peer => {}
        }
    });
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(4096);
        sender.send(far).unwrap();
        let mut rep = RawRep::new(accept, 1, DEFAULT_LIMIT);
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Req).await;
            peer.ping().await;
            read_until(&mut peer.stream, PONG).await;
        };
        tokio::select! {
            end = rep.serve() => panic!("{end:?}"),
            () = peer => {}
        }
    });
    // REQ, while it waits for its reply.
    run(async {
        let (near, far) = duplex(4096);
        let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT);
        let (connection, mut peer) = tokio::join!(connection, Omq::new(far, OmqType::Rep));
        let mut req = RawReq::new(connection.unwrap(), 1);
        let peer = async {
            let request = peer.receive().await;
            assert_eq!(request, [&b""[..], b"\0"]);
            peer.ping().await;
            read_until(&mut peer.stream, PONG).await;
        };
        tokio::select! {
            end = req.round_trip() => panic!("{end:?}"),
            () = peer => {}
        }
    });
    // PUSH, between two writes, however long a write is blocked.
    run(async {
        let (near, far) = duplex(4096);
        let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT);
        let (connection, mut peer) = tokio::join!(connection, Omq::new(far, OmqType::Pull));
        let mut push = RawPush::new(connection.unwrap(), 1);
        let flood = async {
            loop {
                push.push(u64::MAX, |_| ()).await.unwrap();
            }
        };
        let peer = async {
            peer.ping().await;
            let read = read_until(&mut peer.stream, PONG).await;
            let before = read.windows(PONG.len()).position(|w| w == PONG).unwrap();
            assert_eq!(before % 3, 0, "it stands between two messages");
        };
        tokio::select! {
            () = flood => {}
            () = peer => {}
        }
    });
}

#[test]
fn a_peer_that_pings_and_never_reads_costs_no_memory() {
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(4096);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let mut sent = 0;
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Push).await;
            loop {
                peer.ping().await;
                sent += 1;
            }
        };
        let stuck = timeout(Duration::from_millis(200), async {
            tokio::select! {
                end = pull.pull(1, |_| Ok(())) => panic!("{end:?}"),
                () = peer => {}
            }
        });
        assert!(stuck.await.is_err());
        // What the pipes hold both ways, and what it answers without waiting.
        assert!(sent < 2000, "{sent}");
    });
}

#[test]
fn a_message_of_several_parts_counts_once_and_has_the_size_of_all() {
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(64);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Push).await;
            peer.send(&[b"one ", b"", b"message"]).await;
            peer.send(&[b"another"]).await;
            Ok(peer)
        };
        let mut seen = Vec::new();
        let puller = pull_all(&mut pull, 2, |message| seen.push(message.to_vec()));
        tokio::try_join!(peer, puller).unwrap();
        assert_eq!(seen, [&b"one message"[..], b"another"]);
    });
}

#[test]
fn a_reply_has_the_envelope_of_its_request() {
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(64);
        sender.send(far).unwrap();
        let mut rep = RawRep::new(accept, 8, DEFAULT_LIMIT);
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Dealer).await;
            for request in [
                &[&b""[..], b"12345678"][..],
                &[b"way", b"back", b"", b"1234", b"", b"5678"],
            ] {
                peer.send(request).await;
                assert_eq!(peer.receive().await, request);
            }
            peer.send(&[b"no", b"delimiter"]).await;
            Ok(peer)
        };
        let server = async {
            rep.serve().await?;
            rep.serve().await?;
            let end = rep.serve().await;
            assert!(matches!(end, Err(RawError::NoEnvelope)), "{end:?}");
            Ok::<_, RawError>(())
        };
        tokio::try_join!(peer, server).unwrap();
    });
}

#[test]
fn another_size_than_agreed_is_an_error_that_tells_both() {
    let expected = "message of 3 bytes received, 2 bytes expected: give both ends the same \
                    message size";
    // In a request and in a reply.
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(64);
        sender.send(far).unwrap();
        let mut rep = RawRep::new(accept, 2, DEFAULT_LIMIT);
        let client = async {
            let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT)
                .await
                .unwrap();
            RawReq::new(connection, 3).round_trip().await
        };
        let (here, there) = tokio::join!(rep.serve(), client);
        assert_eq!(here.unwrap_err().to_string(), expected);
        assert!(matches!(there, Err(RawError::Closed)), "{there:?}");
    });
    run(async {
        let (near, far) = duplex(64);
        let connection = handshake(near, SocketType::Req, DEFAULT_LIMIT);
        let (connection, mut peer) = tokio::join!(connection, Omq::new(far, OmqType::Rep));
        let mut req = RawReq::new(connection.unwrap(), 2);
        let reply = async {
            peer.receive().await;
            peer.send(&[b"", b"123"]).await;
        };
        let (end, ()) = tokio::join!(req.round_trip(), reply);
        assert_eq!(end.unwrap_err().to_string(), expected);
    });
    // In a message that is visited.
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(64);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let pusher = async {
            let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
            RawPush::new(connection, 3).push(1, |_| ()).await
        };
        let puller = pull.pull(1, |message| WrongSize::check(2, message.len()));
        let (sent, got) = tokio::join!(pusher, puller);
        assert_eq!(sent.unwrap(), 1);
        assert_eq!(got.unwrap_err().to_string(), expected);
    });
}

#[test]
fn a_bound_socket_outlives_strangers() {
    run(async {
        let (listener, address) = listener().await;
        let mut pull = RawPull::new(listener, DEFAULT_LIMIT);
        for (hello, said) in [
            (
                &b"GET / HTTP/1.1\r\n\r\n"[..],
                r#"not a ZMTP greeting (starts with "GET / HTTP/1.1\r\n")"#,
            ),
            (
                b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x02\0\0",
                "a PULL socket cannot talk to a SUB socket, only to PUSH",
            ),
            (
                b"\xff\0\0",
                "the peer closed the connection before its greeting was complete",
            ),
        ] {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            stranger.write_all(hello).await.unwrap();
            stranger.shutdown().await.unwrap();
            let refused = pull.pull(1, |_| Ok(())).await.unwrap_err();
            assert!(refused.is_stranger());
            assert_eq!(refused.to_string(), said);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let pusher = async {
            let connection = handshake(stream, SocketType::Push, DEFAULT_LIMIT).await?;
            let mut push = RawPush::new(connection, 1);
            push.push(5, |_| ()).await?;
            Ok(push)
        };
        tokio::try_join!(pusher, pull_all(&mut pull, 5, |_| ())).unwrap();
        assert_eq!(pull.shares(), [5], "strangers have no share");
    });
}

#[test]
fn both_ends_of_a_mismatch_say_so() {
    run(async {
        let (near, far) = duplex(4096);
        let (here, there) = tokio::join!(
            handshake(near, SocketType::Push, DEFAULT_LIMIT),
            handshake(far, SocketType::Req, DEFAULT_LIMIT),
        );
        assert_eq!(
            here.unwrap_err().to_string(),
            "a PUSH socket cannot talk to a REQ socket, only to PULL"
        );
        assert_eq!(
            there.unwrap_err().to_string(),
            "a REQ socket cannot talk to a PUSH socket, only to REP or ROUTER"
        );
    });
}

/// A PULL socket whose peer shakes hands, sends `traffic`, and closes: what the
/// socket says, and how many messages it got before.
fn pull_after(traffic: &[u8], limit: usize) -> (u64, String) {
    run(async {
        let (sender, accept) = streams();
        let (near, far) = duplex(1 << 20);
        sender.send(far).unwrap();
        let mut pull = RawPull::new(accept, limit);
        let peer = async {
            let mut peer = Omq::new(near, OmqType::Push).await;
            peer.stream.write_all(traffic).await.unwrap();
        };
        let puller = async {
            let mut pulled = 0;
            loop {
                match pull.pull(u64::MAX, |_| Ok(())).await {
                    Ok(count) => pulled += count,
                    Err(error) => {
                        assert!(!error.is_stranger());
                        assert_eq!(pull.shares(), [pulled]);
                        return (pulled, error.to_string());
                    }
                }
            }
        };
        tokio::join!(puller, peer).0
    })
}

#[test]
fn a_stream_that_goes_wrong_is_counted_up_to_there() {
    for (traffic, count, said) in [
        (&b"\0\x01x\0\x01y"[..], 2, "the peer closed the connection"),
        (
            b"\0\x01x\0\x02y",
            1,
            "the peer closed the connection in the middle of a message",
        ),
        (
            b"\0\x01x\x01\x01y",
            1,
            "the peer closed the connection in the middle of a message",
        ),
        (
            b"\0\x01x\x10\x02y",
            1,
            "a frame has reserved flag bits set (flags 0x10): the peer's stream is out of step \
             or not ZMTP",
        ),
        (
            b"\0\x01x\x04\x09\x05ERROR\x02no",
            1,
            "the peer gives up: no",
        ),
        (
            b"\0\x01x\x02\x80\0\0\0\0\0\0\0",
            1,
            "the peer claims 9223372036854775817 bytes for one message, this end takes 9192 at \
             most",
        ),
    ] {
        assert_eq!(pull_after(traffic, 1000), (count, said.to_owned()));
    }
}

#[test]
fn a_push_socket_notices_that_its_peer_is_gone_or_mad() {
    for (traffic, said) in [
        (&b""[..], "the peer closed the connection"),
        (
            b"\0\x01x",
            "the peer sent a message that nothing here has asked for",
        ),
    ] {
        run(async {
            let (near, far) = duplex(1 << 20);
            let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT);
            let (connection, mut peer) = tokio::join!(connection, Omq::new(far, OmqType::Pull));
            let mut push = RawPush::new(connection.unwrap(), 1);
            peer.stream.write_all(traffic).await.unwrap();
            drop(peer);
            let end = push.push(1, |_| ()).await.unwrap_err();
            assert_eq!(end.to_string(), said);
        });
    }
}

/// What a peer of an older version says first, and what it is told.
const OLDER: [(Framing, &[u8], &[u8]); 2] = [
    (Framing::V1, b"\x01\0", b"\xff\0\0\0\0\0\0\0\x01\x7f"),
    (
        Framing::V2,
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x01\x03\0\0",
        b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\x04\0\0",
    ),
];

#[test]
fn peers_of_older_versions_get_their_echo_in_their_framing() {
    for (framing, hello, answer) in OLDER {
        for size in SIZES {
            run(async {
                let (sender, accept) = streams();
                let (mut near, far) = duplex(1 << 16);
                sender.send(far).unwrap();
                let mut rep = RawRep::new(accept, size, DEFAULT_LIMIT);
                let mut request = Vec::new();
                encode_frame(framing, Kind::More, b"", &mut request);
                encode_frame(framing, Kind::Last, &vec![7; size], &mut request);
                let client = async {
                    near.write_all(hello).await.unwrap();
                    let mut heard = vec![0; answer.len()];
                    near.read_exact(&mut heard).await.unwrap();
                    assert_eq!(heard, answer);
                    near.write_all(&request).await.unwrap();
                    let mut echo = vec![0; request.len()];
                    near.read_exact(&mut echo).await.unwrap();
                    assert_eq!(echo, request);
                    Ok(())
                };
                tokio::try_join!(client, rep.serve()).unwrap();
            });
        }
    }
}

#[test]
fn a_peer_of_zmtp_1_is_pushed_to_in_its_framing() {
    for size in SIZES {
        run(async {
            let (near, mut far) = duplex(1 << 16);
            let pusher = async {
                let connection = handshake(near, SocketType::Push, DEFAULT_LIMIT).await?;
                assert_eq!(connection.peer().version, Version::V1);
                let mut push = RawPush::new(connection, size);
                push_all(&mut push, 3).await?;
                push.finish().await
            };
            let puller = async {
                far.write_all(b"\x01\0").await.unwrap();
                let mut heard = Vec::new();
                far.read_to_end(&mut heard).await.unwrap();
                drop(far);
                let mut expected = b"\xff\0\0\0\0\0\0\0\x01\x7f".to_vec();
                for _ in 0..3 {
                    encode_frame(Framing::V1, Kind::Last, &vec![0; size], &mut expected);
                }
                assert!(heard == expected, "{size}");
                Ok(())
            };
            tokio::try_join!(pusher, puller).unwrap();
        });
    }
}

#[test]
fn a_socket_without_peers_waits() {
    run(async {
        let (sender, accept) = streams::<DuplexStream>();
        let mut pull = RawPull::new(accept, DEFAULT_LIMIT);
        let waited = timeout(Duration::from_millis(20), pull.pull(1, |_| Ok(()))).await;
        assert!(waited.is_err());
        drop(sender);
        let waited = timeout(Duration::from_millis(20), pull.pull(1, |_| Ok(()))).await;
        assert!(waited.is_err());
    });
}

/// Fails as a listener does that is out of file descriptors.
struct Exhausted;

impl Accept for Exhausted {
    type Stream = DuplexStream;

    fn poll_accept(&mut self, _: &mut Context<'_>) -> Poll<io::Result<DuplexStream>> {
        Poll::Ready(Err(io::Error::other("too many open files")))
    }
}

#[test]
fn a_listener_that_fails_is_told_of_each_time() {
    run(async {
        let mut rep = RawRep::new(Exhausted, 1, DEFAULT_LIMIT);
        for _ in 0..2 {
            let failed = rep.serve().await;
            assert!(matches!(failed, Err(RawError::Accept(_))), "{failed:?}");
        }
    });
}
