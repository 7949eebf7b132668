"""The promise suite's trainers, launches and readers, for the benchmarks that run the same promises longer."""

import importlib
import sys

from record import REPOSITORY

TESTS = REPOSITORY / "tests"
sys.path[:0] = [str(TESTS / "promises"), str(TESTS / "distributed"), str(TESTS / "unit" / "protein")]

launching = importlib.import_module("launching")
runs = importlib.import_module("runs")
TRAINERS = importlib.import_module("cases").TRAINERS
