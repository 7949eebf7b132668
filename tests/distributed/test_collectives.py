"""Every function of lib.distributed on two real ranks: one launch, many facts."""

import pytest
from launching import ACCELERATE, CONFIGS, PROBES, environment, launch


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    command = [*ACCELERATE, "--config_file", CONFIGS / "cpu_2.yaml", PROBES / "collectives.py", "--dist_timeout", "3"]
    ended = launch(command, environment(tmp_path_factory.mktemp("cache")))
    assert ended.code == 0, ended.stderr
    # Nothing to say on the normal path, neither about the process group nor about anything else.
    assert ended.stderr == ""
    assert [line["rank"] for line in ended.ranks] == [0, 1]
    return ended.ranks


def test_gather_rows_keeps_rank_order_and_uneven_shares(ranks):
    expected = [{"rank": 0, "item": 0}] + [{"rank": 1, "item": item} for item in range(3)]
    for line in ranks:
        assert line["rows"] == expected
        assert line["uneven"] == ["only rank 0"]
        assert line["nothing"] == []
        assert [text.split(":")[0] for text in line["not_a_list"]] == ["TypeError"] * 3


def test_global_sums_are_float64_and_independent_of_the_order_of_keys(ranks):
    for line in ranks:
        assert line["sums"]["loss"] == 0.1 + 0.2
        # float32 would lose even the first power.
        assert line["sums"]["count"] == 2.0**53
    assert list(ranks[0]["sums"]) == ["count", "loss"] and list(ranks[1]["sums"]) == ["loss", "count"]


def test_different_keys_are_told_on_every_rank(ranks):
    assert ranks[0]["key_error"].startswith("RuntimeError") and "['b', 'c']" in ranks[0]["key_error"]
    assert ranks[1]["key_error"].startswith("RuntimeError") and "['a']" in ranks[1]["key_error"]


def test_agreement(ranks):
    for line in ranks:
        assert line["any"] == [True, False, True]
        assert line["broadcast"] == {"who": 0, "list": [1, None, "x"]}
        assert line["equal"] == ""
        assert "the plan differs between ranks" in line["unequal"]
        assert "ranks [0]: 'mine is 0'; ranks [1]: 'mine is 1'" in line["unequal"]


def test_equal_weights_and_different_data(ranks):
    assert ranks[0]["hash"] == ranks[1]["hash"]
    assert ranks[0]["data"] != ranks[1]["data"]


def test_main_only_first_waits_longer_than_the_collective_timeout(ranks):
    assert all(line["waited_s"] >= 4.0 for line in ranks)


def test_an_error_on_the_main_process_reaches_all(ranks):
    assert [line["main_first_user"] for line in ranks] == ["UserError: no such folder"] * 2
    assert ranks[0]["main_first_bug"] == "TypeError: a bug on main"
    assert ranks[1]["main_first_bug"] == "RuntimeError: the main process failed: TypeError: a bug on main"
    assert [line["main_first_after"] for line in ranks] == ["", ""]
