"""libzmq's local_lat on pyzmq: sends every message back."""

import perf
import zmq

run = perf.arguments("<bind-to> <message-size> <roundtrip-count>")
with zmq.Context() as context, context.socket(zmq.REP) as socket:
    perf.bind(socket, run.endpoint)
    for _ in range(run.count):
        socket.send(perf.receive(socket, run.size), copy=False)
