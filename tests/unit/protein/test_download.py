"""Downloading: against a server on loopback that serves, stalls, cuts and lies. No test leaves the machine."""

import email.utils
import errno
import gzip
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from structure_server import running_server, structure_text

from lib.errors import UserError
from lib.protein import download as module
from lib.protein.download import LOCK_NAME, download, fetch_into, server
from lib.protein.download_ids import parse_id, read_ids
from lib.protein.download_lock import revision_date
from lib.protein.rcsb_search import PATH as SEARCH_PATH
from lib.protein.rcsb_search import PRESETS, request_body
from lib.protein.transfer import Patience, gunzip, retry_after_s

QUICK = Patience(
    attempts=4, first_delay_s=0.01, longest_delay_s=0.05, longest_retry_after_s=5.0, timeout_s=0.4, request_s=2.0
)


@pytest.fixture
def web(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as state:
        for entry in module.SERVERS.values():
            monkeypatch.setenv(entry.variable, state.url)
        yield state


def fetch(ids, folder, **arguments):
    lines = arguments.pop("lines", [])
    return download(ids, folder, patience=arguments.pop("patience", QUICK), log=lines.append, **arguments)


def path_of(name: str) -> str:
    return f"/download/{name}.cif.gz"


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def lock_of(folder: Path) -> dict:
    return json.loads((folder / LOCK_NAME).read_text())


def one_line(error) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 600
    return text


def test_files_and_lock_hold_what_was_served(web, tmp_path):
    bodies = {name: web.add(name) for name in ("1abc", "2xyz", "pdb_00009zzz")}
    result = fetch(["1ABC", "2xyz", "PDB_00009zzz", "1abc"], tmp_path)
    assert sorted(result.fetched) == sorted(bodies) and not result.failed and not result.missing
    assert names_in(tmp_path) == {f"{name}.cif.gz" for name in bodies} | {LOCK_NAME}
    assert web.asked == {path_of(name): 1 for name in bodies}
    lock = lock_of(tmp_path)
    for name, body in bodies.items():
        assert (tmp_path / f"{name}.cif.gz").read_bytes() == body
        record = lock["files"][name]
        assert record["sha256"] == hashlib.sha256(body).hexdigest() and record["bytes"] == len(body)
        assert record["revision"] == "2024-05-06" and record["source"] == web.url + path_of(name)
    assert result.size_bytes == sum(map(len, bodies.values()))
    assert [path.name for path in result.files] == sorted(f"{name}.cif.gz" for name in bodies)


def test_second_run_asks_for_nothing(web, tmp_path):
    web.add("1abc")
    first = fetch(["1abc", "9non"], tmp_path)
    assert first.missing == ["9non"] and lock_of(tmp_path)["missing"]["9non"]["status"] == 404
    web.asked.clear()
    again = fetch(["1abc", "9non"], tmp_path)
    assert again.kept == ["1abc"] and again.missing == ["9non"] and not again.fetched
    assert not web.asked, "complete files and known 404s are not asked for again"


def test_missing_on_one_server_is_asked_of_another(web, tmp_path):
    fetch(["1abc"], tmp_path)
    with running_server() as mirror:
        mirror.add("1abc")
        assert fetch(["1abc"], tmp_path, host=mirror.url).fetched == ["1abc"]
    assert lock_of(tmp_path)["missing"] == {} and set(lock_of(tmp_path)["files"]) == {"1abc"}


@pytest.mark.parametrize(
    "trouble",
    [
        ["cut"],
        ["reset"],
        ["truncated"],
        ["crc"],
        ["html"],
        ["hang"],
        [(500, {})],
        [(503, {}), "cut", (429, {})],
    ],
    ids=str,
)
def test_trouble_passes_and_the_file_is_whole(web, tmp_path, trouble):
    body = web.add("1abc")
    web.plan[path_of("1abc")] = [*trouble, "ok"]
    assert fetch(["1abc"], tmp_path).fetched == ["1abc"]
    assert web.asked[path_of("1abc")] == len(trouble) + 1
    assert (tmp_path / "1abc.cif.gz").read_bytes() == body
    assert names_in(tmp_path) == {"1abc.cif.gz", LOCK_NAME}


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("cut", "connection ended after"),
        ("truncated", "gzip stream is cut"),
        ("crc", "damaged gzip"),
        ("html", "not mmCIF"),
        ("unbounded", "4 attempts"),
        ((503, {}), "status 503"),
    ],
    ids=str,
)
def test_lasting_trouble_fails_by_name_and_leaves_nothing(web, tmp_path, trouble, words):
    web.add("1abc"), web.add("2xyz")
    body = web.files[path_of("1abc")]
    if trouble == "unbounded":  # an answer without length is fine for gzip, whose end is known: here it is not gzip
        web.files[path_of("1abc")], words = gzip.decompress(body), "without length"
    web.plan[path_of("1abc")] = [trouble]
    result = fetch(["1abc", "2xyz"], tmp_path)
    assert words in result.failed["1abc"] and result.fetched == ["2xyz"]
    assert web.asked[path_of("1abc")] == QUICK.attempts
    assert names_in(tmp_path) == {"2xyz.cif.gz", LOCK_NAME}
    assert set(lock_of(tmp_path)["files"]) == {"2xyz"} and lock_of(tmp_path)["missing"] == {}
    web.plan.clear()
    web.files[path_of("1abc")] = body
    assert fetch(["1abc", "2xyz"], tmp_path).fetched == ["1abc"], "the next run fetches what is left"


def test_gzip_without_length_is_whole_by_its_own_end(web, tmp_path):
    web.add("1abc")
    web.plan[path_of("1abc")] = ["unbounded"]
    assert fetch(["1abc"], tmp_path).fetched == ["1abc"]


def test_refused_requests_are_not_repeated(web, tmp_path):
    web.add("1abc")
    web.plan[path_of("1abc")] = [(403, {})]
    assert fetch(["1abc"], tmp_path).failed["1abc"].startswith("status 403")
    assert web.asked[path_of("1abc")] == 1


def test_retry_after_holds_back_every_connection(web, tmp_path):
    names = [f"{number}abc" for number in range(1, 7)]
    for name in names:
        web.add(name)
    web.plan[path_of("1abc")] = [(429, {"Retry-After": "1"}), "ok"]
    web.delay_s = 0.05
    started = time.monotonic()
    result = fetch(names, tmp_path, connections=2)
    assert len(result.fetched) == 6 and time.monotonic() - started >= 1.0
    refused, repeated = web.times[path_of("1abc")]
    assert repeated - refused >= 1.0
    others = [moment for name in names[2:] for moment in web.times[path_of(name)]]
    assert all(moment - refused >= 0.95 for moment in others), "a request went out while the server asked for silence"


def test_retry_after_forms():
    assert retry_after_s({"Retry-After": " 17 "}) == 17
    date = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 28 < retry_after_s({"Retry-After": date}) <= 30
    assert retry_after_s({"Retry-After": email.utils.formatdate(time.time() - 30, usegmt=True)}) == 0
    assert retry_after_s({}) is None and retry_after_s({"Retry-After": "soon"}) is None


def test_unreasonable_retry_after_is_not_waited_for(web, tmp_path):
    web.add("1abc")
    web.plan[path_of("1abc")] = [(429, {"Retry-After": "86400"})]
    started = time.monotonic()
    assert "86400 s" in fetch(["1abc"], tmp_path).failed["1abc"]
    assert time.monotonic() - started < 2 and web.asked[path_of("1abc")] == 1


def test_delays_double_up_to_the_limit_and_spread():
    patience = Patience(first_delay_s=1.0, longest_delay_s=8.0)
    delays = [patience.delay_s(attempt, "x") for attempt in range(6)]
    assert all(0.75 * want <= delay <= 1.25 * want for delay, want in zip(delays, (1, 2, 4, 8, 8, 8)))
    assert len({patience.delay_s(0, f"url {number}") for number in range(20)}) > 15


def test_connections_are_parallel_and_bounded(web, tmp_path):
    names = [f"{number}ab{letter}" for number in range(1, 7) for letter in "cd"]
    for name in names:
        web.add(name)
    web.delay_s = 0.08
    started = time.monotonic()
    fetch(names, tmp_path, connections=4)
    assert web.most_open == 4
    assert time.monotonic() - started < 0.08 * len(names) * 0.8


def test_no_connection_is_one_line_and_soon(tmp_path, monkeypatch):
    monkeypatch.delenv("http_proxy", raising=False)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    started = time.monotonic()
    with pytest.raises(UserError) as error:
        fetch(
            [f"{number}abc" for number in range(1, 10)], tmp_path, host=address, patience=Patience(first_delay_s=0.02)
        )
    text = one_line(error)
    assert address in text and "Connection refused" in text and "QUARTET_RCSB_HOST" in text and "--rcsb_ids" in text
    assert time.monotonic() - started < 2
    assert names_in(tmp_path) == {LOCK_NAME} and lock_of(tmp_path)["missing"] == {}


def test_server_that_dies_on_the_way_ends_the_download(web, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FAILURES_IN_A_ROW", 5)
    names = [f"{first}{second}aa" for first in range(1, 8) for second in range(6)]
    web.add(names[0])
    for name in names[1:]:
        web.plan[path_of(name)] = [(503, {})]
    with pytest.raises(UserError) as error:
        fetch(names, tmp_path, connections=2)
    assert "status 503" in one_line(error) and "again later" in one_line(error)
    assert sum(web.asked.values()) < 15 * QUICK.attempts, "it went on asking a dead server"
    assert set(lock_of(tmp_path)["files"]) == {names[0]}


def test_changed_and_damaged_files_are_fetched_again(web, tmp_path):
    body = web.add("1abc")
    web.add("2xyz")
    fetch(["1abc", "2xyz"], tmp_path)
    path = tmp_path / "1abc.cif.gz"
    path.write_bytes(body[:-9])
    lines = []
    result = fetch(["1abc", "2xyz"], tmp_path, lines=lines)
    assert result.fetched == ["1abc"] and result.kept == ["2xyz"] and path.read_bytes() == body
    assert any("1abc.cif.gz is not the file on record" in line for line in lines)


def test_files_without_record_are_checked(web, tmp_path):
    good, bad = web.add("1abc"), web.add("2xyz")
    (tmp_path / "1abc.cif.gz").write_bytes(good)
    (tmp_path / "2xyz.cif.gz").write_bytes(bad[: len(bad) // 2])
    (tmp_path / LOCK_NAME).write_text('{"format": 99}')
    lines = []
    result = fetch(["1abc", "2xyz"], tmp_path, lines=lines)
    assert result.kept == ["1abc"] and result.fetched == ["2xyz"]
    assert (tmp_path / "2xyz.cif.gz").read_bytes() == bad
    assert any("no lock file of format 1" in line for line in lines) and any("is damaged" in line for line in lines)
    assert lock_of(tmp_path)["files"]["1abc"]["source"] == "found in the folder"


def test_a_revision_is_told(web, tmp_path):
    web.add("1abc")
    fetch(["1abc"], tmp_path)
    (tmp_path / "1abc.cif.gz").unlink()
    web.add("1abc", revisions=("2001-02-03", "2025-01-31"))
    lines = []
    fetch(["1abc"], tmp_path, lines=lines)
    assert "download: 1abc was revised: 2024-05-06 -> 2025-01-31" in lines


def test_alphafold_models_are_stored_compressed(web, tmp_path):
    text = structure_text("AF-P12345-F1", revisions=("2022-06-01",))
    web.files["/files/AF-P12345-F1-model_v6.cif"] = text
    web.files["/files/AF-Q8W3K0-F2-model_v4.cif"] = gzip.compress(text)
    web.headers["/files/AF-Q8W3K0-F2-model_v4.cif"] = {"Content-Encoding": "gzip"}
    result = fetch(["p12345", "AF-Q8W3K0-F2-model_v4"], tmp_path)
    assert sorted(result.fetched) == ["AF-P12345-F1-model_v6", "AF-Q8W3K0-F2-model_v4"]
    for name in result.fetched:
        assert gzip.decompress((tmp_path / f"{name}.cif.gz").read_bytes()) == text
        assert lock_of(tmp_path)["files"][name]["revision"] == "2022-06-01"
    assert fetch(["P12345"], tmp_path).kept == ["AF-P12345-F1-model_v6"]


def test_full_disk_is_one_line_and_leaves_nothing_partial(web, tmp_path, monkeypatch):
    web.add("1abc")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(UserError) as error:
        module._store(tmp_path / "1abc.cif.gz", b"x" * 100)
    assert "no space left" in one_line(error) and str(tmp_path) in one_line(error)
    assert names_in(tmp_path) == set()


def test_folder_that_is_a_file(web, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UserError, match="taken"):
        fetch(["1abc"], tmp_path / "taken")


def test_leftovers_of_killed_runs_are_removed(web, tmp_path):
    web.add("1abc")
    old, new = tmp_path / ".tmp-download-old", tmp_path / ".tmp-download-new"
    old.write_bytes(b"x"), new.write_bytes(b"x")
    os.utime(old, (time.time() - 2 * module.STALE_S,) * 2)
    fetch(["1abc"], tmp_path)
    assert names_in(tmp_path) == {"1abc.cif.gz", ".tmp-download-new", LOCK_NAME}


def test_killed_run_continues(web, tmp_path):
    names = [f"{first}{second}aa" for first in range(1, 8) for second in range(6)]
    bodies = {name: web.add(name, atoms=4000) for name in names}
    web.delay_s = 0.05
    code = (
        "import sys; from lib.protein.download import download\n"
        "download(sys.argv[2:], sys.argv[1], connections=3, log=lambda line: None)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), *names], env=dict(os.environ))
    deadline = time.monotonic() + 30
    while sum(1 for _ in tmp_path.glob("*.cif.gz")) < 9 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    there = {path.name[:-7] for path in tmp_path.glob("*.cif.gz")}
    assert 9 <= len(there) < len(names)
    assert all((tmp_path / f"{name}.cif.gz").read_bytes() == bodies[name] for name in there)
    assert not (tmp_path / LOCK_NAME).exists()
    web.delay_s = 0.0
    result = fetch(names, tmp_path)
    assert set(result.kept) == there and set(result.fetched) == set(names) - there
    assert set(lock_of(tmp_path)["files"]) == set(names)


def test_reading_takes_only_the_structures(web, tmp_path):
    reading = pytest.importorskip("lib.protein.reading")
    web.add("1abc")
    fetch(["1abc", "9non"], tmp_path)
    (tmp_path / ".tmp-download-left").write_bytes(b"x")
    assert [path.name for path in reading.find_structure_files(tmp_path)] == ["1abc.cif.gz"]


def test_ids_are_recognised():
    assert parse_id("4HHB").id == "4hhb" and parse_id("pdb_00004hhb").kind == "pdb"
    assert parse_id("P69905").id == "AF-P69905-F1-model_v6" and parse_id("A0A024R1R8").kind == "afdb"
    assert parse_id("af-p69905-f1-model_v4").id == "AF-P69905-F1-model_v4"
    for wrong in ("4hhbA", "hhb4", "4hh", "4hhb_A", "", "../etc", "4hh/", "P6990", "AF-4HHB-F1"):
        assert parse_id(wrong) is None, wrong


def test_id_files(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("\ufeff# two helices\n4HHB, 1ubi\n\n1ubi;1CRN  # again\r\nP69905\n", encoding="utf-8")
    assert read_ids(path) == ["4hhb", "1ubi", "1crn", "AF-P69905-F1-model_v6"]
    path.write_text("4hhb\n1abcA\n")
    with pytest.raises(UserError, match=r"line 2: '1abcA' is no id"):
        read_ids(path)
    path.write_text("# nothing\n")
    with pytest.raises(UserError, match="no ids in it"):
        read_ids(path)
    with pytest.raises(UserError, match="No such file"):
        read_ids(tmp_path / "absent.txt")


def test_addresses(monkeypatch):
    for entry in module.SERVERS.values():
        monkeypatch.delenv(entry.variable, raising=False)
    assert server("pdb") == "https://files.rcsb.org"
    assert server("pdb", "mirror.example.org/pdb/") == "https://mirror.example.org/pdb"
    monkeypatch.setenv("QUARTET_RCSB_HOST", "http://localhost:8080")
    assert server("pdb") == "http://localhost:8080" and server("afdb") == "https://alphafold.ebi.ac.uk"
    monkeypatch.setenv("QUARTET_RCSB_HOST", "file:///etc")
    with pytest.raises(UserError, match="QUARTET_RCSB_HOST"):
        server("pdb")


def test_revision_date_forms():
    assert revision_date(structure_text("X", revisions=("2001-02-03",))) == "2001-02-03"
    assert revision_date(structure_text("X", revisions=("2024-05-06", "2001-02-03"))) == "2024-05-06"
    assert revision_date(b"data_X\n_atom_site.id 1\n") == ""
    assert revision_date(b"data_X\nloop_\n_pdbx_audit_revision_history.revision_date\n'broken\n#\n") == ""


def test_gunzip_tells_what_is_wrong():
    stream = gzip.compress(b"a" * 1000)
    assert gunzip(stream + stream) == b"a" * 2000
    for broken, words in (
        (stream[:-1], "is cut"),
        (stream[:-8] + b"\0\0\0\0" + stream[-4:], "damaged"),
        (stream + b"xx", "after the end"),
        (b"", "not a gzip"),
    ):
        with pytest.raises(ValueError, match=words):
            gunzip(broken)


def test_query_downloads_its_hits(web, tmp_path):
    web.add("1abc"), web.add("2xyz")
    web.search_answer = {"result_set": ["1ABC_1", "2XYZ_2", "1ABC_3"], "total_count": 3}
    web.plan[SEARCH_PATH] = [(503, {}), "ok"]
    lines = []
    result = fetch_into(tmp_path, query="xray30", patience=QUICK, log=lines.append)
    assert sorted(result.fetched) == ["1abc", "2xyz"] and "download: --rcsb_query xray30 found 2 entries" in lines
    assert web.posted[0] == web.posted[1] == request_body("xray30")
    options = web.posted[0]["request_options"]
    assert options["group_by"]["similarity_cutoff"] == 30 and options["return_all_hits"] is True
    assert web.posted[0]["return_type"] == "polymer_entity"


def test_query_with_a_count_is_the_same_every_time(web, tmp_path):
    names = [f"{first}{second}aa" for first in range(1, 8) for second in range(6)]
    web.search_answer = {"result_set": [{"identifier": name.upper()} for name in names]}
    for name in names:
        web.add(name)
    first = fetch_into(tmp_path / "a", query="all35:7", patience=QUICK, log=lambda _: None)
    web.search_answer["result_set"].reverse()
    second = fetch_into(tmp_path / "b", query="all35:7", patience=QUICK, log=lambda _: None)
    assert len(first.fetched) == 7 and sorted(first.fetched) == sorted(second.fetched) != sorted(names)[:7]
    assert "group_by" not in web.posted[0]["request_options"] and web.posted[0]["return_type"] == "entry"


@pytest.mark.parametrize(
    ("query", "answer", "words"),
    [
        ("xray3", None, "did you mean xray30"),
        ("xray30:many", None, "'many' is no number"),
        ("small", None, "found no entries"),
        ("small", {"unexpected": 1}, "without result_set"),
        ("small", {"result_set": [3]}, "holds no identifiers"),
    ],
)
def test_query_errors_are_one_line(web, tmp_path, query, answer, words):
    web.search_answer = answer
    with pytest.raises(UserError) as error:
        fetch_into(tmp_path / "new", query=query, patience=QUICK, log=lambda _: None)
    text = str(error.value)
    assert words in text and "\n" not in text
    assert not (tmp_path / "new").exists(), "nothing is written before the ids are known"


def test_presets_are_well_formed():
    for name, (what, query, identity) in PRESETS.items():
        assert re.search(r"X-ray", what) and query["logical_operator"] == "and" and identity in (None, 30, 95)
        assert json.loads(json.dumps(request_body(name)))["query"]["nodes"]


def test_fetch_into_names_what_could_not_be_had(web, tmp_path):
    ids = tmp_path / "ids.txt"
    ids.write_text("1abc 2xyz")
    web.add("1abc"), web.add("2xyz")
    web.plan[path_of("2xyz")] = [(500, {})]
    with pytest.raises(UserError) as error:
        fetch_into(tmp_path / "data", ids_file=ids, patience=QUICK, log=lambda _: None)
    assert "1 of 2 structures" in one_line(error) and "2xyz: status 500" in one_line(error)
    web.plan.clear()
    result = fetch_into(tmp_path / "data", ids_file=ids, patience=QUICK, log=lambda _: None)
    assert result.kept == ["1abc"] and result.fetched == ["2xyz"]
    ids.write_text("9non 8non")
    with pytest.raises(UserError, match="none of the 2 ids exists"):
        fetch_into(tmp_path / "data", ids_file=ids, patience=QUICK, log=lambda _: None)
