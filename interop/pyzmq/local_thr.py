"""libzmq's local_thr on pyzmq: receives a flood and prints its rate."""

import perf
import zmq

run = perf.arguments("<bind-to> <message-size> <message-count> [<enable_curve>]")
with zmq.Context() as context, context.socket(zmq.PULL) as socket:
    if run.curve:
        socket.curve_secretkey = perf.SERVER_SECRET
        socket.curve_server = True
    perf.bind(socket, run.endpoint)
    perf.receive(socket, run.size)
    watch = perf.Stopwatch()
    for _ in range(run.count - 1):
        perf.receive(socket, run.size)
    elapsed = watch.elapsed_us()
perf.print_throughput(run, elapsed)
