"""A TCP proxy before each broker, so that its network can fail while the broker lives.

`python -m tests.chaos.proxy FROM:TO ...`; a line on stdin is a command: `cut N` closes all connections and takes no
more, `stall N` holds every byte back, `drop N` closes all connections once, `heal N` ends a cut or a stall.
"""

import asyncio
import sys


class Proxy:
    """Connections from one port to another."""

    def __init__(self, own: int, target: int) -> None:
        self.own, self.target = own, target
        self._open: set[asyncio.StreamWriter] = set()
        self._flow = asyncio.Event()
        self._flow.set()
        self._cut = False

    async def listen(self) -> None:
        """Takes connections from now on."""
        await asyncio.start_server(self._accept, "127.0.0.1", self.own, limit=1 << 20)

    def obey(self, command: str) -> None:
        """Does what a command says."""
        if command == "heal":
            self._cut = False
            self._flow.set()
        elif command == "stall":
            self._flow.clear()
        else:
            self._cut = command == "cut"
            for writer in list(self._open):
                writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self._flow.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError as error:
            print(f"{self.own}: {error!r}", file=sys.stderr)
        finally:
            writer.close()


async def _main(pairs: list[str]) -> None:
    proxies = [Proxy(*map(int, pair.split(":"))) for pair in pairs]
    for proxy in proxies:
        await proxy.listen()
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command, number = line.decode().split()
        proxies[int(number)].obey(command)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
