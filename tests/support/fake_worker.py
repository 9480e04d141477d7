"""A worker that says what a file tells it to: FOLDER DESCRIPTOR COORDINATOR MEMORY.

The n-th worker follows ``FOLDER/n.json``; one without a file is honest. ``FOLDER/row.json`` is the
row of a trial that went well.
"""

import json
import os
import pickle
import signal
import socket
import sys
import time
from pathlib import Path


class _Anything:
    """Whatever a task is made of."""

    def __init__(self, *args):
        pass

    def __setstate__(self, state):
        pass


class _Tasks(pickle.Unpickler):
    def find_class(self, module, name):
        return _Anything


def _number(folder):
    number = 0
    while True:
        try:
            os.close(os.open(folder / f"started-{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            number += 1
        else:
            return number


def main():
    folder = Path(sys.argv[1])
    channel = socket.socket(fileno=int(sys.argv[2]))
    tasks = channel.makefile("rb")
    row = json.loads((folder / "row.json").read_text())
    script = folder / f"{_number(folder)}.json"
    steps = json.loads(script.read_text()) if script.exists() else [["ready"]]

    def say(*message):
        channel.sendall(json.dumps(message).encode() + b"\n")

    def take():
        _Tasks(tasks).load()

    def flood(text):
        while True:
            channel.sendall(text.encode() * 10_000)

    actions = {
        "ready": lambda: say("ready"),
        "take": take,
        "batch": lambda: say("batch", 2),
        "fit": lambda: say("fit", {"code_digest": "digest"}),
        "done": lambda: say("done", row, False),
        "retire": lambda: say("done", row, True),
        "raw": lambda text: channel.sendall(text.encode("utf-8", "surrogateescape")),
        "flood": flood,
        "exit": os._exit,
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "close": lambda: channel.shutdown(socket.SHUT_RDWR),
        "hang": lambda: time.sleep(600),
    }
    for name, *arguments in steps:
        actions[name](*arguments)
    while True:
        take()
        say("fit", {"code_digest": "digest"})
        say("done", row, False)


if __name__ == "__main__":
    try:
        main()
    except (EOFError, OSError):
        os._exit(0)
