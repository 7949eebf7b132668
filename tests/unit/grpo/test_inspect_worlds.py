"""scripts/inspect_worlds.py: what it shows, plays, writes, and how it refuses."""

import builtins
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import script_modules
from episode_samples import airline_task, real_data, write_airline

from lib import launch
from lib.args import parse
from lib.grpo.domains import DOMAINS
from lib.grpo.users.endpoint import Endpoint

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = script_modules.load("inspect_worlds")


def call(*flags):
    SCRIPT.main(parse(SCRIPT.Config, [str(flag) for flag in flags]))


def refused(capsys, *flags) -> str:
    """The one line with which the script ends for bad input, with exit code 2."""
    with pytest.raises(SystemExit) as left:
        launch.run(SCRIPT.main, SCRIPT.Config, argv=[str(flag) for flag in flags])
    error = capsys.readouterr().err.strip()
    assert left.value.code == 2 and len(error.splitlines()) == 1, error
    return error


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("user", ["scripted", "none"])
def test_shows_policy_brief_dialogue_changes_and_reward(capsys, domain, user):
    call("--domain", domain, "--level", 3, "--seed", 7, "--user", user)
    text = capsys.readouterr().out
    places = [text.index(f"# {part}\n") for part in ("policy", "user", "dialogue", "changes of the database", "reward")]
    assert places == sorted(places)
    assert f"task {domain}/" in text and "reason_for_call" in text and "reward 1\n" in text
    assert "agent: " in text and "tool:  " in text and "[x] DB: agent database" in text and "[ ] DB" not in text


def test_a_template_by_name_and_the_list(capsys):
    call("--domain", "airline", "--template", "upgrade", "--seed", 3)
    assert "(template upgrade, seed 3, level 1)" in capsys.readouterr().out
    call("--list")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 36 and "airline upgrade" in lines
    assert sum("held out" in line for line in lines) >= 6


class Page(HTMLParser):
    """Text and tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.text, self.names = "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attributes)

    def handle_data(self, data):
        self.text += data


def test_the_page_holds_everything_and_can_run_nothing(tmp_path, capsys):
    row = airline_task()
    row["user_scenario"]["instructions"]["reason_for_call"] = "<script>alert(1)</script> & \ud800 cancel AAA111"
    write_airline(tmp_path / "data", [row])
    call("--tau2-data", tmp_path / "data", "--html", tmp_path / "page.html", "--report_json", tmp_path / "report.json")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "script" not in page.names and "<script>alert(1)</script>" in page.text
    assert "cancel_reservation(reservation_id='AAA111')" in page.text and "Reward 1" in page.text
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["reward"] == 1 and report["end"] == "user_stop" and report["domain"] == "airline"


def test_playing_the_agent(monkeypatch, capsys):
    lines = iter(
        [
            "",
            "/help",
            "/tools",
            "/policy",
            "What is your user id?",
            "/call get_user_details {broken",
            "/call nope",
            "/reward",
        ]
    )

    def answer(prompt):
        line = next(lines, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr(builtins, "input", answer)
    call("--domain", "airline", "--play", "--seed", 4)
    text = capsys.readouterr().out
    assert "/call NAME" in text and "cancel_reservation(reservation_id): " in text and "My user id is" in text
    assert "malformed arguments" in text and "Tool 'nope' not found" in text and "The episode was left." in text
    assert text.rstrip().endswith("reward 0  (ended early: not at an end)")


def test_playing_to_the_end(monkeypatch, capsys, tmp_path):
    write_airline(tmp_path)
    look = '/call cancel_reservation {"reservation_id": "AAA111"}'
    lines = iter([look, "It has been done."])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(lines))
    call("--tau2_data", tmp_path, "--play")
    assert "The episode ended: user_stop." in capsys.readouterr().out


def test_replays_every_task(capsys, tmp_path):
    wrong = [{"name": "cancel_reservation", "arguments": {"reservation_id": "NO"}}]
    tasks = [airline_task("a"), airline_task("b", actions=wrong, reward_basis=["DB", "NL_ASSERTION"])]
    write_airline(tmp_path / "data", tasks)
    call("--tau2_data", tmp_path / "data", "--replay", "--report_json", tmp_path / "report.json")
    text = capsys.readouterr().out
    assert "airline: 2 tasks, reward 1 in 2, a gold action refused in 1" in text
    assert "NL_ASSERTION needs a judge: left out in 1 tasks" in text
    report = json.loads((tmp_path / "report.json").read_text())
    assert [(row["id"], row["domain"], row["reward"]) for row in report["tasks"]] == [
        ("a", "airline", 1),
        ("b", "airline", 1),
    ]
    assert report["tasks"][0]["checks"] == {"DB": 1, "COMMUNICATE": 1} and report["tasks"][0]["tool_errors"] == []
    assert report["tasks"][1]["tool_errors"] == ["cancel_reservation: Error: Reservation NO not found"]
    assert report["dropped"] == {"NL_ASSERTION": 1}


@pytest.mark.shared_data
def test_a_task_of_the_real_data(capsys):
    call("--tau2-data", real_data(), "--domain", "retail", "--task", 0)
    text = capsys.readouterr().out
    assert "task retail/0" in text and "reward 1" in text


def test_bad_input_is_one_line(capsys, tmp_path):
    data = write_airline(tmp_path / "data", [airline_task("1"), airline_task("2")])
    assert "'nope'" in refused(capsys, "--template", "nope")
    assert "--replay" in refused(capsys, "--replay")
    assert "--task" in refused(capsys, "--task", "5")
    assert "first of 2 tasks: 1, 2" in refused(capsys, "--tau2_data", data, "--task", "9")
    assert "no folder" in refused(capsys, "--tau2_data", tmp_path / "nowhere")
    assert "--openai_api_base" in refused(capsys, "--user", "openai")
    assert "http" in refused(capsys, "--user", "openai", "--openai_api_base", "host", "--openai_model", "m")
    assert "level" in refused(capsys, "--level", 5)
    assert "--list and --play" in refused(capsys, "--list", "--play")
    assert "--html" in refused(capsys, "--list", "--html", "x.html")
    assert "holds none of the folders" in refused(capsys, "--tau2_data", "", "--replay")
    assert "--openai_api_base" in refused(capsys, "--user", "openai", "--openai_model", "m")
    (data / "airline" / "db.json").write_text("{")
    assert "db.json is damaged" in refused(capsys, "--tau2_data", data, "--replay")


def test_an_output_that_cannot_be_written_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("kept")
    assert "no folder" in refused(capsys, "--html", tmp_path / "file" / "page.html")
    assert (tmp_path / "file").read_text() == "kept"
    assert "is no file" in refused(capsys, "--html", tmp_path)
    assert "is no file" in refused(capsys, "--report_json", tmp_path)


def test_an_endpoint_that_does_not_answer_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(SCRIPT, "Endpoint", lambda *settings: Endpoint(*settings, retries=0))
    flags = ["--user", "openai", "--openai_api_base", "http://127.0.0.1:9/v1", "--openai_model", "m"]
    assert "did not answer" in refused(capsys, *flags)
