"""libzmq's remote_lat on pyzmq: measures round trips, prints half of their mean."""

import perf
import zmq

run = perf.arguments("<connect-to> <message-size> <roundtrip-count>")
with zmq.Context() as context, context.socket(zmq.REQ) as socket:
    socket.connect(run.endpoint)
    message = zmq.Frame(bytes(run.size))
    watch = perf.Stopwatch()
    for _ in range(run.count):
        socket.send(message, copy=False)
        message = perf.receive(socket, run.size)
    elapsed = watch.elapsed_us()
perf.print_latency(run, elapsed)
