"""The calculator against Python's own arithmetic, everything it refuses, and limits that keep it fast."""

import random
import re
import time
import warnings

import pytest

from lib.grpo.worlds.calculator import ALLOWED, MOST_CHARACTERS, MOST_DEPTH, calculate

SYNTAX, LARGE, ZERO = "Invalid syntax in expression", "Result too large", "Division by zero"


def expected(expression: str) -> str | None:
    """What the benchmark computes, with `eval`; None where it fails. Only for what the test itself wrote."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return str(round(float(eval(expression, {"__builtins__": None}, {})), 2))
    except (SyntaxError, TypeError, ArithmeticError):
        return None


def reached(expression: str) -> str | None:
    try:
        return calculate(expression)
    except ValueError:
        return None


def random_expression(rng: random.Random, depth: int) -> str:
    """A well-formed expression, with parentheses only sometimes, so that precedence matters."""
    blank = rng.choice(["", "", " "])
    if depth == 0 or rng.random() < 0.15:
        return blank + rng.choice(["0", "1", "2", "3", "7", "12", "100", "0.5", "2.25", ".75", "4.", "00", "08.5"])
    kind = rng.random()
    if kind < 0.2:
        # No powers of powers: `eval` would not return.
        left = random_expression(rng, 0) if kind < 0.1 else f"(2 - {random_expression(rng, 0)})"
        return f"{left}{blank}**{blank}{rng.choice(['2', '3', '0', '-1', '-2', '0.5', '2**2', '-2**2', '(1 - 3)'])}"
    left = random_expression(rng, depth - 1)
    if kind < 0.35:
        return f"{blank}({left})"
    if kind < 0.5:
        return blank + rng.choice(["-", "+", "--", "- +"]) + left
    return left + blank + rng.choice(["+", "-", "*", "/", "//"]) + random_expression(rng, depth - 1)


def test_agrees_with_python_on_well_formed_expressions():
    rng = random.Random(0)
    values = 0
    for _ in range(3000):
        expression = random_expression(rng, rng.randint(1, 5))
        value = expected(expression)
        assert reached(expression) == value, expression
        values += value is not None
    assert values > 2000


def test_agrees_with_python_on_token_soup():
    """Well-formed or not: the same strings have a value, and the same value."""
    rng = random.Random(1)
    tokens = ["1", "2", "3.5", ".5", "0", "00", "07", "1.", "+", "-", "*", "/", "//", "**", "(", ")", " ", "."]
    values = errors = 0
    while errors < 4000:
        expression = "".join(rng.choices(tokens, k=rng.randint(1, 8)))
        # Towers of powers would keep `eval` busy for years.
        if expression.count("**") > 1 or re.search(r"\d{4}", expression):
            continue
        value = expected(expression)
        assert reached(expression) == value, expression
        values, errors = values + (value is not None), errors + (value is None)
    assert values > 400


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", "14.0"),
        ("(2 + 3) * 4", "20.0"),
        ("10 - 4 - 3", "3.0"),
        ("100 / 10 / 5", "2.0"),
        ("-7 // 2", "-4.0"),
        ("-2 ** 2", "-4.0"),
        ("2 ** 3 ** 2", "512.0"),
        ("2 ** -1", "0.5"),
        ("2 * -3", "-6.0"),
        ("--3", "3.0"),
        ("  1 + 1  ", "2.0"),
        ("2 * 1.255", "2.51"),
        # The nearest float to 2.675 lies below it.
        ("2.675", "2.67"),
        ("-0.001", "-0.0"),
        ("350 * 2 + 30 * 2 + 50", "810.0"),
    ],
)
def test_values(expression, value):
    assert calculate(expression) == value == expected(expression)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", SYNTAX),
        ("   ", SYNTAX),
        ("()", SYNTAX),
        ("(1", SYNTAX),
        ("1)", SYNTAX),
        ("1 +", SYNTAX),
        ("* 1", SYNTAX),
        ("1 2", SYNTAX),
        ("1 . 5", SYNTAX),
        ("1.2.3", SYNTAX),
        (".", SYNTAX),
        ("2(3)", SYNTAX),
        ("(2)(3)", SYNTAX),
        ("2 * * 3", SYNTAX),
        ("2 *** 3", SYNTAX),
        ("2 /// 3", SYNTAX),
        ("007", "leading zeros"),
        ("1 + 01", "leading zeros"),
        ("1 / 0", ZERO),
        ("1 // 0.0", ZERO),
        ("0 ** -1", ZERO),
        ("1 / (2 - 2)", ZERO),
        ("(-8) ** 0.5", "not a real number"),
        ("(0 - 2.5) ** .5", "not a real number"),
        ("10.0 ** 400", LARGE),
        ("(-10.0) ** 401", LARGE),
    ],
)
def test_errors(expression, said):
    assert expected(expression) is None
    with pytest.raises(ValueError, match=said):
        calculate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "x",
        "1e5",
        "1_000",
        "1,000",
        "$5",
        "5%",
        "1\n+ 1",
        "1\t+ 1",
        "\uff11 + 1",
        "\u0663",
        "__import__('os')",
        "[1]",
        "1j",
    ],
)
def test_other_characters_are_refused(expression):
    with pytest.raises(ValueError, match=r"^Invalid characters in expression$"):
        calculate(expression)


# Limits: none of these may take long, whatever Python would do with them.


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("9**9**9", LARGE),
        ("9**9**9**9**9", LARGE),
        ("-9**9**9", LARGE),
        ("(9**600)**600", LARGE),
        ("9.0**9**9", LARGE),
        ("9**(9.0**9)", LARGE),
        ("2**1024", LARGE),
        # Python would bring these down to 2 and 1.
        ("2**3000 / 2**2999", LARGE),
        ("2**2000 * 2**2000 // 2**2000 // 2**2000", LARGE),
        ("*".join(["9**600"] * 50), LARGE),
        ("9" * MOST_CHARACTERS, LARGE),
        ("(" * (MOST_DEPTH + 1) + "1" + ")" * (MOST_DEPTH + 1), "nested too deeply"),
        ("(" * MOST_CHARACTERS, "nested too deeply"),
        ("1**" * (MOST_DEPTH + 1) + "1", "nested too deeply"),
        ("-" * MOST_CHARACTERS, SYNTAX),
        ("1" * (MOST_CHARACTERS + 1), "too long: 401 characters, at most 400"),
        ("1+" * 1_000_000, "too long"),
        ("x" * 1_000_000, "Invalid characters"),
    ],
    ids=lambda text: text[:20],
)
def test_limits(expression, said):
    began = time.perf_counter()
    with pytest.raises(ValueError, match=said):
        calculate(expression)
    assert time.perf_counter() - began < 0.5


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(" * MOST_DEPTH + "1" + ")" * MOST_DEPTH, "1.0"),
        ("+".join(["(1)"] * 100), "100.0"),
        ("+".join(["1**1"] * 80), "80.0"),
        ("1**" * MOST_DEPTH + "1", "1.0"),
        ("-" * (MOST_CHARACTERS - 1) + "1", "-1.0"),
        ("1 **" + "9" * 300, "1.0"),
        ("(-1) **" + "9" * 300, "-1.0"),
        ("0 **" + "9" * 300, "0.0"),
        ("2 ** -3000", "0.0"),
        ("9 ** -9 ** 9", "0.0"),
        ("2 ** 2000 / 2 ** 1999", "2.0"),
        ("2 ** 1023", str(2.0**1023)),
        ("9" * 398 + ".", "inf"),
    ],
    ids=lambda text: text[:20],
)
def test_within_the_limits_python_is_followed(expression, value):
    began = time.perf_counter()
    assert calculate(expression) == value
    assert time.perf_counter() - began < 0.5
    assert expected(expression) == value


def test_random_strings_never_hang_or_fail_otherwise():
    rng = random.Random(2)
    letters = sorted(ALLOWED)
    began = time.perf_counter()
    for _ in range(2000):
        reached("".join(rng.choices(letters, k=rng.randint(1, MOST_CHARACTERS))))
        reached("9" + "".join(rng.choices(["**", "*", "9", "-", "(9)", "+9"], k=rng.randint(1, 40))))
    assert time.perf_counter() - began < 10
