"""A small HTTP server on loopback that serves structures and misbehaves as it is told."""

import contextlib
import gzip
import json
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def structure_text(name: str, revisions=("2001-02-03", "2024-05-06"), atoms: int = 40) -> bytes:
    """An mmCIF as the archive writes it, with a revision history and a few hundred bytes of atoms."""
    if len(revisions) == 1:
        history = (
            f"_pdbx_audit_revision_history.ordinal       1\n_pdbx_audit_revision_history.revision_date {revisions[0]}\n"
        )
    else:
        rows = "\n".join(f"{number} 'Structure model' {date} ?" for number, date in enumerate(revisions, 1))
        history = (
            "loop_\n_pdbx_audit_revision_history.ordinal\n_pdbx_audit_revision_history.data_content_type\n"
            f"_pdbx_audit_revision_history.revision_date\n_pdbx_audit_revision_history.internal_note\n{rows}\n"
        )
    lines = "\n".join(f"ATOM {number} CA {number * 7919 % 1000}" for number in range(atoms))
    atom_site = f"loop_\n_atom_site.group_PDB\n_atom_site.id\n_atom_site.label_atom_id\n_atom_site.Cartn_x\n{lines}\n"
    return f"data_{name}\n#\n_entry.id {name}\n#\n{history}#\n{atom_site}#\n".encode()


class StructureServer:
    """`plan[path]` is a list of behaviours, one per request of that path, the last one repeated; default: "ok".

    Behaviours: ok, cut (half the body, then the connection ends), reset (no answer), hang (until the server closes),
    truncated (a gzip stream that is short by itself), crc (one flipped byte), html, or (status, headers).
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.plan: dict[str, list] = defaultdict(lambda: ["ok"])
        self.asked: Counter = Counter()
        self.times: dict[str, list[float]] = defaultdict(list)
        self.posted: list[dict] = []
        self.search_answer: dict | None = None
        self.headers: dict[str, dict] = {}
        self.open_now = self.most_open = 0
        self.delay_s = 0.0
        self.closing = threading.Event()
        self.lock = threading.Lock()

    def add(self, name: str, **arguments) -> bytes:
        body = gzip.compress(structure_text(name.upper(), **arguments), mtime=0)
        self.files[f"/download/{name}.cif.gz"] = body
        return body

    def behaviour(self, path: str):
        with self.lock:
            number = self.asked[path]
            self.asked[path] += 1
            self.times[path].append(time.monotonic())
        steps = self.plan[path]
        return steps[min(number, len(steps) - 1)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        state = self.server.state
        body = self.rfile.read(int(self.headers["Content-Length"]))
        state.posted.append(json.loads(body))
        behaviour = state.behaviour(self.path)
        if behaviour != "ok":
            return self.misbehave(behaviour, b"{}")
        if state.search_answer is None:
            return self.answer(204, b"")
        return self.answer(200, json.dumps(state.search_answer).encode())

    def do_GET(self):
        state = self.server.state
        with state.lock:
            state.open_now += 1
            state.most_open = max(state.most_open, state.open_now)
        try:
            state.closing.wait(state.delay_s)
            behaviour = state.behaviour(self.path)
            body = state.files.get(self.path)
            if body is None and behaviour == "ok":
                return self.answer(404, b"<html>not found</html>")
            if behaviour == "ok":
                return self.answer(200, body, state.headers.get(self.path, {}))
            return self.misbehave(behaviour, body or b"")
        finally:
            with state.lock:
                state.open_now -= 1

    def misbehave(self, behaviour, body: bytes):
        if behaviour == "hang":
            self.server.state.closing.wait(10)
        elif behaviour == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        elif behaviour == "truncated":
            return self.answer(200, body[: len(body) // 2])
        elif behaviour == "crc":
            return self.answer(200, body[:-6] + bytes([body[-6] ^ 0xFF]) + body[-5:])
        elif behaviour == "html":
            return self.answer(200, b"<html>please log in</html>")
        elif behaviour == "unbounded":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
        elif isinstance(behaviour, tuple):
            return self.answer(behaviour[0], b"busy", behaviour[1])
        else:
            assert behaviour == "reset", behaviour
        self.close_connection = True
        return None

    def answer(self, status: int, body: bytes, headers: dict | None = None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextlib.contextmanager
def running_server():
    """A StructureServer with its address as `.url`."""
    state = StructureServer()
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http_server.daemon_threads = True
    http_server.state = state
    state.url = f"http://127.0.0.1:{http_server.server_address[1]}"
    thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.closing.set()
        http_server.shutdown()
        http_server.server_close()
        thread.join()
