"""The arithmetic of the `calculate` tool: a parser of its own, because nothing a model writes is evaluated as code.

Grammar and precedence are Python's, restricted to numbers, + - * / // ** and parentheses.
"""

import re

ALLOWED = frozenset("0123456789+-*/(). ")
MOST_CHARACTERS = 400
MOST_DEPTH = 40
# Larger results are refused: 9**9**9 has 369 million digits.
MOST_BITS = 2048
TOKEN = re.compile(r" *(\d+\.\d*|\.\d+|\d+|\*\*|//|[-+*/()])")


def calculate(expression: str) -> str:
    """The value rounded to two decimals, as text: "2 * 3" -> "6.0".

    Raises ValueError for other characters, wrong syntax, division by zero, and for results or expressions too large.
    """
    if not ALLOWED.issuperset(expression):
        raise ValueError("Invalid characters in expression")
    if len(expression) > MOST_CHARACTERS:
        raise ValueError(f"Expression too long: {len(expression)} characters, at most {MOST_CHARACTERS}")
    try:
        return str(round(float(_Parser(expression).value()), 2))
    except ZeroDivisionError:
        raise ValueError("Division by zero") from None
    except OverflowError:
        raise ValueError("Result too large") from None


class _Parser:
    """Recursive descent over the tokens; one method for each level of precedence."""

    def __init__(self, expression: str):
        self.tokens: list[str] = []
        self.place = self.depth = 0
        end = len(expression.rstrip())
        start = 0
        while start < end:
            match = TOKEN.match(expression, start)
            if match is None:
                raise ValueError("Invalid syntax in expression")
            self.tokens.append(match[1])
            start = match.end()

    def value(self) -> int | float:
        result = self.sum()
        if self.place != len(self.tokens):
            raise ValueError("Invalid syntax in expression")
        return result

    def next_is(self, *tokens: str) -> str | None:
        """Takes and returns the next token if it is one of `tokens`."""
        if self.place < len(self.tokens) and self.tokens[self.place] in tokens:
            self.place += 1
            return self.tokens[self.place - 1]
        return None

    def sum(self) -> int | float:
        left = self.product()
        while operator := self.next_is("+", "-"):
            right = self.product()
            left = _bounded(left + right if operator == "+" else left - right)
        return left

    def product(self) -> int | float:
        left = self.signed()
        while operator := self.next_is("*", "/", "//"):
            right = self.signed()
            left = _bounded(left * right if operator == "*" else left / right if operator == "/" else left // right)
        return left

    def signed(self) -> int | float:
        signs = 0
        while sign := self.next_is("+", "-"):
            signs += sign == "-"
        value = self.power()
        return -value if signs % 2 else value

    def power(self) -> int | float:
        base = self.atom()
        if not self.next_is("**"):
            return base
        self.deeper()
        exponent = self.signed()
        self.depth -= 1
        # Only whole powers of whole numbers take long; of -1, 0 and 1 they take no time.
        if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > MOST_BITS:
            raise OverflowError
        result = base**exponent
        if isinstance(result, complex):
            raise ValueError("Result is not a real number")
        return _bounded(result)

    def atom(self) -> int | float:
        if self.next_is("("):
            self.deeper()
            value = self.sum()
            self.depth -= 1
            if not self.next_is(")"):
                raise ValueError("Invalid syntax in expression")
            return value
        token = self.tokens[self.place] if self.place < len(self.tokens) else ""
        if not token or not (token[0].isdigit() or token[0] == "."):
            raise ValueError("Invalid syntax in expression")
        self.place += 1
        if "." in token:
            return float(token)
        if token[0] == "0" and token.strip("0"):
            raise ValueError("Invalid syntax in expression: leading zeros")
        return int(token)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ValueError("Expression nested too deeply")


def _bounded(value: int | float) -> int | float:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise OverflowError
    return value
