"""The one exception that ends a run with a single line and exit code 2, and words for those of others."""

import traceback
from pathlib import Path


class UserError(ValueError):
    """Bad input. The message says what was found, what was expected and what to do, in one line."""


def in_words(error: Exception) -> str:
    """What went wrong and where, in one line, of an error of somebody else's code."""
    words = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {words}".removesuffix(": ") + place
