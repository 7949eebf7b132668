"""The one exception that ends a run with a single line and exit code 2."""


class UserError(ValueError):
    """Bad input. The message says what was found, what was expected and what to do, in one line."""
