"""Random, malformed and hostile calls and messages: no exception leaves the engine, an error changes nothing.

The benchmark `benchmarks/grpo_worlds.py` runs the same with 100,000.
"""

import pytest

from lib.grpo.domains import DOMAINS
from lib.grpo.fuzz import fuzz_calls, fuzz_messages


@pytest.mark.parametrize("domain", DOMAINS)
def test_calls(domain):
    report = fuzz_calls(domain, count=3000, seed=5)
    assert report.faults == [] and report.changed_by_errors == [] and report.base_changed is False
    assert report.calls == 3000 and report.errors > 500 and report.successes > 100


@pytest.mark.parametrize("domain", DOMAINS)
def test_messages(domain):
    report = fuzz_messages(domain, count=1500, seed=5)
    assert report.faults == [] and report.changed_by_errors == [] and report.base_changed is False
    assert report.calls == 1500
