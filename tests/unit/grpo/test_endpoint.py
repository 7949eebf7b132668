"""The client of OpenAI-compatible endpoints, against a server of our own on this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lib.errors import UserError
from lib.grpo.users.endpoint import Endpoint, EndpointError

HELLO = [{"role": "user", "content": "Hello"}]


class Server:
    """Answers requests from a list of (status, body); keeps what came."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.requests.append((self.path, dict(self.headers), json.loads(body)))
                status, answer = outer.answers.pop(0)
                self.send_response(status)
                if answer == "short":
                    self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def log_message(self, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def serve():
    servers = []

    def start(*answers):
        servers.append(Server(*answers))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def answer(text, **more):
    return 200, {"choices": [{"message": {"role": "assistant", "content": text, **more}}]}


def endpoint(server, **settings):
    return Endpoint(server.base, "small-model", **{"backoff_s": 0.01, "key": "secret", **settings})


def test_asks_once_and_gives_the_message(serve, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server = serve(answer("Hi!", refusal=None))
    assert endpoint(server).complete(HELLO, []) == {"role": "assistant", "content": "Hi!"}
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer secret"
    assert body == {"model": "small-model", "messages": HELLO, "temperature": 0.0}


def test_the_key_of_the_environment_comes_first(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "from-environment")
    server = serve(answer("Hi!"))
    endpoint(server).complete(HELLO, [])
    assert server.requests[0][1]["Authorization"] == "Bearer from-environment"


def test_tools_and_calls_travel_both_ways(serve):
    call = {"id": "1", "type": "function", "function": {"name": "reboot_device", "arguments": "{}"}}
    server = serve(answer(None, tool_calls=[call]))
    mine = {**call, "function": {"name": "reboot_device", "arguments": {}}}
    tool = {"type": "function", "function": {"name": "reboot_device", "parameters": {}}}
    message = endpoint(server).complete([*HELLO, {"role": "assistant", "content": "", "tool_calls": [mine]}], [tool])
    assert message["tool_calls"] == [call]
    body = server.requests[0][2]
    assert body["tools"] == [tool] and body["messages"][1]["tool_calls"] == [call], "arguments travel as JSON text"


def test_retries_what_may_pass(serve):
    server = serve((429, {}), (500, {}), (200, b"not json"), (200, {"choices": []}), answer("Hi!"))
    assert endpoint(server).complete(HELLO, [])["content"] == "Hi!"
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": None}]},
        {"choices": [{"message": "text"}]},
        {"choices": [{"message": {"content": 3}}]},
        {"choices": [{"message": {"content": None, "tool_calls": [{}]}}]},
        {"choices": [{"message": {"content": None, "tool_calls": 3}}]},
        [],
        None,
    ],
)
def test_an_answer_that_is_none_is_asked_for_again(serve, body):
    server = serve((200, body), answer("Hi!"))
    assert endpoint(server).complete(HELLO, [])["content"] == "Hi!"


def test_a_body_that_breaks_off_is_asked_for_again(serve):
    server = serve((200, "short"), answer("Hi!"))
    assert endpoint(server).complete(HELLO, [])["content"] == "Hi!"


def test_gives_up_with_one_line_that_holds_no_key(serve):
    server = serve(*[(503, {})] * 3)
    with pytest.raises(EndpointError, match="status 503, after 3 attempts") as raised:
        endpoint(server, retries=2).complete(HELLO, [])
    assert "secret" not in str(raised.value) and "\n" not in str(raised.value)


def test_does_not_retry_what_stays_wrong(serve):
    server = serve((401, {}))
    with pytest.raises(EndpointError, match="status 401, after 1 attempts"):
        endpoint(server).complete(HELLO, [])


def test_nobody_there():
    with pytest.raises(EndpointError, match="after 2 attempts"):
        Endpoint("http://127.0.0.1:9/v1", "m", retries=1, backoff_s=0.01).complete(HELLO, [])
    with pytest.raises(UserError, match="--openai-api-base"):
        Endpoint("localhost:8000", "m")


def test_answers_are_kept_and_hold_no_key(serve, tmp_path):
    server = serve(answer("Hi!"), answer("Ho!"), answer("Hi again!"))
    first = endpoint(server, cache=tmp_path)
    assert first.complete(HELLO, [])["content"] == "Hi!"
    assert endpoint(server, cache=tmp_path, key="other").complete(HELLO, [])["content"] == "Hi!"
    assert len(server.requests) == 1, "the second answer comes from the folder"
    assert endpoint(server, cache=tmp_path, temperature=0.5).complete(HELLO, [])["content"] == "Ho!"
    kept = sorted(tmp_path.rglob("*.json"))
    assert len(kept) == 2 and not any("secret" in path.read_text() for path in kept)
    for path, damaged in zip(kept, ("{damaged", "null")):
        path.write_text(damaged)
    assert first.complete(HELLO, [])["content"] == "Hi again!", "a damaged entry is asked for again"
