"""A WebSocket server that says back what it hears, and a client that asks it everything and tells what came of it.

chat.py serve PORT
chat.py ask URL PROXY
"""

import json
import os
import sys

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import serve

ROOM = 8 << 20


def answer(connection):
    for message in connection:
        if message == "ping me":
            message = "pong" if connection.ping(b"from the server").wait(60) else "nothing"
        if message == "enough":
            connection.close(4007, "enough is enough")
            return
        connection.send(message)


def ask(url, proxy):
    with connect(url, proxy=proxy, max_size=ROOM, open_timeout=60) as connection:
        texts = ["", "ahoy", "\u2693 " * 1000]
        blobs = [bytes(range(256)), os.urandom(4 << 20)]
        same = 0
        for message in texts + blobs:
            connection.send(message)
            same += connection.recv(60) == message
        pinged = connection.ping(b"from the client").wait(60)
        connection.send("ping me")
        ping_back = connection.recv(60)
        connection.send("enough")
        try:
            connection.recv(60)
            end = None
        except ConnectionClosed as closed:
            end = [closed.rcvd.code, closed.rcvd.reason]
    print(json.dumps({"same": same, "pinged": pinged, "ping_back": ping_back, "end": end}))


match sys.argv[1:]:
    case ["serve", port]:
        with serve(answer, "127.0.0.1", int(port), max_size=ROOM) as server:
            server.serve_forever()
    case ["ask", url, proxy]:
        ask(url, proxy)
    case _:
        sys.exit(__doc__)
