"""libzmq's remote_thr on pyzmq: sends a flood; ends when the last byte has left."""

import perf
import zmq

run = perf.arguments("<connect-to> <message-size> <message-count> [<enable_curve>]")
with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
    if run.curve:
        socket.curve_secretkey = perf.CLIENT_SECRET
        socket.curve_publickey = perf.CLIENT_PUBLIC
        socket.curve_serverkey = perf.SERVER_PUBLIC
    socket.connect(run.endpoint)
    message = bytes(run.size)
    for _ in range(run.count):
        socket.send(message)
