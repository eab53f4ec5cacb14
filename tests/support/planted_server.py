"""A small HTTP server whose start can be planted to fail. Run as a script by the tests of the launcher.

    python planted_server.py TOKEN BEHAVIOUR PORT [SLOTS]

The token appears in the command line of every process that it starts. With SLOTS, as many requests are in service at a
time, 20 ms each; more than four of them slow each other down. `PUT /slots/N` changes that number, if N is at least 1.
If the behaviour is `cold`, the first requests take ten times as long.
"""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

SERVICE_S = 0.02
MOST_USEFUL = 4
COLD_REQUESTS, COLD = 12, 10
SLEEPER = [sys.executable, "-c", "import time; time.sleep(300)"]


def start_child(token: str, env: dict[str, str] | None = None) -> None:
    subprocess.Popen([*SLEEPER, token], start_new_session=True, env=env).returncode = 0


def plant(token: str, behaviour: str) -> None:
    if behaviour == "exits":
        sys.exit("unknown flag --x")
    if behaviour == "late":
        time.sleep(0.3)
        print("the weights are damaged", flush=True)
        os._exit(4)
    if behaviour == "memory":
        print("torch.OutOfMemoryError: CUDA out of memory", *(f"frame {n}" for n in range(30)), sep="\n")
        sys.exit(1)
    if behaviour == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "silent":
        os._exit(1)
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if behaviour in ("child", "dying"):
        start_child(token)
    if behaviour == "bare":
        start_child(token, env={})
    if behaviour == "daemon" and os.fork() == 0:
        start_child(token)
        os._exit(0)
    if behaviour == "dying":
        sys.exit("no weights")
    if behaviour == "hangs":
        time.sleep(300)


async def serve(port: int, slots: int, cold: int = 0) -> None:
    busy = asyncio.Semaphore(slots)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal busy, cold, slots
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if (asked := re.match(rb"PUT /slots/(\d+)", head)) is not None:
                    print(head.split()[1].decode(), flush=True)
                    status = b"200 OK" if int(asked[1]) else b"400 no slots"
                    slots = int(asked[1]) or slots
                    busy = asyncio.Semaphore(slots)
                    writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % status)
                    continue
                async with busy:
                    cold -= 1
                    service_s = SERVICE_S * max(1.0, (slots / MOST_USEFUL) ** 2)
                    await asyncio.sleep(service_s * (COLD if cold >= 0 else 1))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    plant(sys.argv[1], sys.argv[2])
    slots = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    asyncio.run(serve(int(sys.argv[3]), slots, COLD_REQUESTS if sys.argv[2] == "cold" else 0))
