"""Scripts for tests that fork: writers that are killed, and processes beside each other."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Callable
from pathlib import Path


def run_script(head: str, body: str, folder: Path) -> str:
    """Run a script of a test on `path`, "a.h5" in a folder, and return what it printed.

    It imports what lies beside this file; forking there is safe, as it has no other threads.
    """
    always = f"""
        import os, random, resource, signal, sys
        from pathlib import Path
        sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
        from forks import forked, is_done, killed
        from mrcjax import archive
        folder = Path({str(folder)!r})
        path = folder / "a.h5"
        """
    script = "".join(map(textwrap.dedent, (always, head, body)))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def forked(work: Callable[[], None]) -> int:
    """Have a child do some work and end, with 0 where nothing is raised; its process id."""
    sys.stdout.flush()  # or the child says once more what is in the buffer
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


def is_done(child: int) -> bool:
    """Wait for a child; whether it ended with 0."""
    return os.waitpid(child, 0)[1] == 0


def killed(
    write: Callable[[Callable[[str], None]], None], seconds: float, *, lines: int = 0
) -> list[str]:
    """Have a child write, kill it, and return the lines that it told before.

    write: called in the child with a function that tells a line, of what it has written for good.
    seconds: that it lives after it told the first `lines`.
    """
    read_end, write_end = os.pipe()

    def work() -> None:
        write(lambda line: os.write(write_end, f"{line}\n".encode()))

    child = forked(work)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        told = [stream.readline() for _ in range(lines)]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told += stream
    return [line.strip() for line in told]
