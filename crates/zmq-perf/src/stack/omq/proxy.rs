//! The sockets of `proxy_thr`: XPUB at each publisher, XSUB and XPUB at the
//! proxy, SUB at the receiver. No queue between them drops a message: a full
//! one makes whoever sends wait.

use std::time::Duration;

use bytes::Bytes;
use omq_tokio::{Message, Options, Proxy, SocketType};
use perf_core::units::count;

use super::{BATCH, bind, check, open, payload, peer_address, run_error};
use crate::endpoint::Endpoint;
use crate::stack::{Socket, StackError, Step};

/// Upstream's high-water mark in `perf/proxy_thr.cpp`.
const WINDOW_MESSAGES: usize = 10_000;

fn options(size: usize) -> Options {
    let mut options = super::window(size, WINDOW_MESSAGES);
    options.xpub_nodrop = true;
    options
}

async fn connect(kind: SocketType, socket: &Socket) -> Step<omq_tokio::Socket> {
    let end = open(kind, options(socket.size))?;
    end.connect(peer_address(&socket.endpoint).await?)
        .await
        .map_err(|error| run_error(&error))?;
    Ok(end)
}

/// Floods the proxy.
pub struct Publisher {
    socket: omq_tokio::Socket,
    payload: Bytes,
}

impl Publisher {
    /// Connects, and waits until somebody subscribes to everything.
    ///
    /// # Errors
    /// When the proxy cannot be reached, or something else comes.
    pub async fn connect(socket: &Socket) -> Step<Self> {
        let end = connect(SocketType::XPub, socket).await?;
        let subscription = end.recv().await.map_err(|error| run_error(&error))?;
        if subscription.part_slice(0) != Some(&[1]) {
            return Err(StackError::NoFit("it sent no subscription".to_owned()));
        }
        Ok(Self {
            socket: end,
            payload: payload(socket.size),
        })
    }

    /// Sends a message, as soon as there is room for it.
    ///
    /// # Errors
    /// When the proxy is gone.
    pub async fn publish(&mut self) -> Step<()> {
        self.socket
            .send(Message::single(self.payload.clone()))
            .await
            .map_err(|error| run_error(&error))
    }

    /// Closes when the last message is with the proxy.
    ///
    /// # Errors
    /// When the proxy is gone.
    pub async fn finish(self) -> Step<()> {
        self.socket.close().await.map_err(|error| run_error(&error))
    }
}

/// The proxy between publishers and subscribers.
pub struct Forwarder {
    frontend: omq_tokio::Socket,
    backend: omq_tokio::Socket,
}

impl Forwarder {
    /// Binds: XSUB to each of `publishers`, XPUB to `subscribers`.
    ///
    /// # Errors
    /// When one of them is taken.
    pub async fn bind(publishers: &[Endpoint], subscribers: &Endpoint, size: usize) -> Step<Self> {
        let frontend = open(SocketType::XSub, options(size))?;
        for endpoint in publishers {
            bind(&frontend, peer_address(endpoint).await?).await?;
        }
        let backend = open(SocketType::XPub, options(size))?;
        bind(&backend, peer_address(subscribers).await?).await?;
        Ok(Self { frontend, backend })
    }

    /// Forwards until the sockets close.
    ///
    /// # Errors
    /// When forwarding fails.
    pub async fn run(self) -> Step<()> {
        Proxy::new(self.frontend, self.backend)
            .run()
            .await
            .map(drop)
            .map_err(|error| run_error(&error))
    }
}

/// Receives from the proxy.
pub struct Subscriber {
    socket: omq_tokio::Socket,
    size: usize,
    messages: Vec<Message>,
}

impl Subscriber {
    /// Connects and subscribes to everything.
    ///
    /// # Errors
    /// When the proxy cannot be reached.
    pub async fn connect(socket: &Socket) -> Step<Self> {
        let end = connect(SocketType::Sub, socket).await?;
        end.subscribe(Bytes::new())
            .await
            .map_err(|error| run_error(&error))?;
        end.wait_connected(1, Duration::MAX)
            .await
            .map_err(|error| run_error(&error))?;
        Ok(Self {
            socket: end,
            size: socket.size,
            messages: Vec::with_capacity(BATCH),
        })
    }

    /// Receives at least one and `at_most` messages; says how many.
    ///
    /// # Errors
    /// When the proxy is gone, or sent a message of another size.
    pub async fn receive(&mut self, at_most: u64) -> Step<u64> {
        let at_most = usize::try_from(at_most).unwrap_or(usize::MAX).min(BATCH);
        self.socket
            .recv_many_into(at_most, &mut self.messages)
            .await
            .map_err(|error| run_error(&error))?;
        let received = count(self.messages.len());
        for message in self.messages.drain(..) {
            check(&message, self.size)?;
        }
        Ok(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(name: &str) -> Socket {
        Socket {
            tool: "test",
            endpoint: Endpoint::Inproc(name.to_owned()),
            size: 100,
            curve: None,
            peers: 1,
        }
    }

    #[tokio::test]
    async fn a_slow_subscriber_gets_every_message() {
        // More than all the queues on the way hold.
        const MESSAGES: u64 = 100_000;
        let (publishers, subscribers) = (socket("omq-proxy-p"), socket("omq-proxy-s"));
        let endpoints = [publishers.endpoint.clone()];
        let forwarder = Forwarder::bind(&endpoints, &subscribers.endpoint, publishers.size)
            .await
            .unwrap();
        tokio::spawn(forwarder.run());
        let mut subscriber = Subscriber::connect(&subscribers).await.unwrap();
        let mut publisher = Publisher::connect(&publishers).await.unwrap();
        let flood = tokio::spawn(async move {
            for _ in 0..MESSAGES {
                publisher.publish().await.unwrap();
            }
            publisher.finish().await.unwrap();
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!flood.is_finished(), "the queues hold them all");
        let mut received = 0;
        while received < MESSAGES {
            received += tokio::time::timeout(
                Duration::from_mins(1),
                subscriber.receive(MESSAGES - received),
            )
            .await
            .unwrap()
            .unwrap();
        }
        flood.await.unwrap();
        assert_eq!(received, MESSAGES);
    }
}
