"""What the parser of arguments refuses, in one line as everything else is refused."""

import difflib
import re
from collections.abc import Sequence

from mrcjax.units import SpecError


def usage_error(said: str, words: Sequence[str], commands: Sequence[str]) -> SpecError:
    """Return what is wrong with a command line as an error.

    said: what the parser says of it, in a frame of several lines. words: those of the command line.
    commands: those that there are.
    """
    if not words or words[0] not in commands:
        return _no_command(words, commands)
    # a title, what is wrong, a rule, what may have been meant, a rule, where there is help
    lines = re.sub(r"\x1b\[[\d;]*m", "", said).splitlines()[1:]
    inside = [line.strip(" │") for line in lines]
    parts = ["\n" if re.fullmatch("[╰╯─-]*", line) else line for line in inside]
    what, *others = " ".join(parts).strip().split("\n")
    near = re.search(r"Perhaps you meant: *(--[\w-]+)", " ".join(others))
    # an option of another command is known, but not here
    hint = f"did you mean {near.group(1)}? " if near and near.group(1) not in words else ""
    what = re.sub(r"\(required\)|\(applied to [^)]*\)", "", what)
    what = " ".join(what.split()).strip(" .") or "these options are not understood"
    return SpecError(what[:1].lower() + what[1:], remedy=f"{hint}see mrcjax {words[0]} --help")


def _no_command(words: Sequence[str], commands: Sequence[str]) -> SpecError:
    if not words:
        return SpecError("a command is missing", remedy=f"use one of {', '.join(commands)}")
    near = difflib.get_close_matches(words[0], commands, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return SpecError(
        f'"{words[0]}" is no command', remedy=f"{hint}use one of {', '.join(commands)}"
    )
