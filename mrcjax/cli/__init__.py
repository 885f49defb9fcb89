"""The command line: arguments in, text or one JSON object out, errors as one line and a status.

Whatever takes long to import is imported by the command that needs it; the commands themselves when
Ctrl-C is listened to.
"""

import sys
from collections.abc import Sequence

from mrcjax.cli.waiting import (
    importing,
    interrupted,
    is_interrupt,
    message_of,
    pipe_closed,
)

USAGE_ERROR = 2  # exit status


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        with importing():
            from mrcjax.cli.commands import dispatch
        dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:
        return pipe_closed()
    except Exception as error:
        if is_interrupt(error):
            return interrupted()
        message = message_of(error)
        if message is None:
            raise
        print(f"mrcjax: {message}", file=sys.stderr)
        return USAGE_ERROR
    return 0
