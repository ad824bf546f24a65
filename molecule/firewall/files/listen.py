"""Takes connections on the ports that are named, and answers each with what it was told."""

import asyncio
import sys


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send each line back, until there is none."""
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def main() -> None:
    """Listen on all ports, by both versions of IP."""
    everywhere = ["0.0.0.0", "::"]
    servers = [await asyncio.start_server(answer, everywhere, int(port)) for port in sys.argv[1:]]
    await asyncio.gather(*(server.serve_forever() for server in servers))


asyncio.run(main())
