"""A client for OpenAI-compatible chat endpoints: standard library only, with retries and a cache on disk.

The key comes from the environment (OPENAI_API_KEY) or from the caller; it goes into the request's header and nowhere
else. Answers are kept under the hash of what was asked, so that a repeated run asks nothing twice.
"""

import hashlib
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from lib.errors import UserError
from lib.grpo.worlds.store import canonical

KEY_VARIABLE = "OPENAI_API_KEY"
RETRIED = (408, 409, 425, 429, 500, 502, 503, 504)
MOST_WAIT_S = 30.0


class EndpointError(RuntimeError):
    """The endpoint did not answer usably, after all retries; the message never holds the key."""


class Endpoint:
    """`complete(messages, tools)` asks for one message; several threads may ask at once.

    `base` is the address up to and with `/v1`; `cache` a folder, or None; `retries` counts further attempts, with waits
    of `backoff_s`, twice that, and so on.
    """

    def __init__(
        self,
        base: str,
        model: str,
        key: str | None = None,
        cache: str | Path | None = None,
        temperature: float = 0.0,
        timeout_s: float = 60.0,
        retries: int = 4,
        backoff_s: float = 1.0,
    ):
        if not base.startswith(("http://", "https://")):
            raise UserError(f"--openai-api-base is {base!r}: expected an address that starts with http:// or https://")
        self.base, self.model = base.rstrip("/"), model
        self.cache = Path(cache) if cache else None
        self.temperature, self.timeout_s, self.retries, self.backoff_s = temperature, timeout_s, retries, backoff_s
        # A key from a file ends with a line break, which http.client refuses in words that hold the key.
        self._key = (os.environ.get(KEY_VARIABLE) or key or "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise UserError(f"the API key ({KEY_VARIABLE}) holds characters that no header can carry: copy it again")

    def complete(self, messages: list[dict], tools: list[dict]) -> dict:
        """The endpoint's message. Raises EndpointError."""
        body = {"model": self.model, "messages": [_for_wire(row) for row in messages], "temperature": self.temperature}
        if tools:
            body["tools"] = tools
        path = self._path_of(body)
        if path and path.is_file():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(kept, dict):
                    return kept
            except ValueError:
                # A damaged entry is asked for again and written over.
                pass
        message = self._ask(body)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
            temporary.write_text(json.dumps(message), encoding="utf-8")
            temporary.replace(path)
        return message

    def _path_of(self, body: dict) -> Path | None:
        if self.cache is None:
            return None
        name = hashlib.sha256(canonical([self.base, body]).encode()).hexdigest()
        return self.cache / name[:2] / f"{name}.json"

    def _ask(self, body: dict) -> dict:
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data = json.dumps(body).encode()
        for attempt in range(self.retries + 1):
            request = urllib.request.Request(f"{self.base}/chat/completions", data, headers, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                    return _message_of(json.loads(response.read()))
            except urllib.error.HTTPError as error:
                problem = f"status {error.code}"
                if error.code not in RETRIED:
                    break
            except (OSError, http.client.HTTPException, ValueError, EndpointError) as error:
                problem = f"{type(error).__name__}: {error}"
            if attempt < self.retries:
                time.sleep(min(self.backoff_s * 2**attempt, MOST_WAIT_S))
        raise EndpointError(f"{self.base} did not answer: {problem}, after {attempt + 1} attempts")


def _message_of(answer: dict) -> dict:
    try:
        message = answer["choices"][0]["message"]
        content, calls = message.get("content"), message.get("tool_calls") or []
        well_formed = all(isinstance(call["function"]["name"], str) for call in calls)
    except (KeyError, IndexError, TypeError, AttributeError):
        well_formed = False
    if not well_formed or not isinstance(content, str | None):
        raise EndpointError("the answer holds no usable choices[0].message")
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def _for_wire(message: dict) -> dict:
    """Endpoints want the arguments of calls as JSON text."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        if not isinstance(function.get("arguments"), str):
            function = {**function, "arguments": json.dumps(function.get("arguments") or {})}
        calls.append({**call, "function": function})
    return {**message, "tool_calls": calls}
