"""HTTP requests that are complete or fail: patience, back-off, Retry-After, length and gzip checks; standard library
only.
"""

from __future__ import annotations

import email.utils
import hashlib
import http.client
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from dataclasses import dataclass

from lib.errors import UserError

AGENT = "quartet (research trainer; Python urllib)"
GONE = (404, 410)
BUSY = (408, 425, 429, 500, 502, 503, 504)
BLOCK = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server. timeout_s: without a byte; request_s: for one whole answer."""

    attempts: int = 6
    attempts_unreached: int = 3  # while the server has never answered: offline is told soon
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    longest_retry_after_s: float = 900.0
    timeout_s: float = 30.0
    request_s: float = 600.0

    def delay_s(self, attempt: int, name: str) -> float:
        """Doubling delays, spread by -25..+25 % by a hash of the name: connections do not come back together."""
        spread = hashlib.blake2b(f"{name} {attempt}".encode(), digest_size=2).digest()
        factor = 0.75 + int.from_bytes(spread, "little") / (1 << 17)
        return min(self.first_delay_s * 2**attempt, self.longest_delay_s) * factor


@dataclass(frozen=True)
class Answer:
    """A complete answer. body: as sent; coding: its Content-Encoding; exact: whether its end is known to be its end."""

    body: bytes
    coding: str
    exact: bool


class Missing(Exception):
    """The server says that the file does not exist (404, 410): asking again is no use."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class Failed(Exception):
    """Given up on one request. The text is the last reason. `reached`: whether the server ever answered."""

    def __init__(self, reason: str, reached: bool = True) -> None:
        super().__init__(reason)
        self.reached = reached


class Stopped(Exception):
    """Another thread ended the download."""


class _Retry(Exception):
    def __init__(self, reason: str, reached: bool = True, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reached = reached
        self.after_s = after_s


class Client:
    """Requests of many threads to one or more servers; a Retry-After of one holds back all of them.

    Proxies are taken from the environment as urllib does (http_proxy, https_proxy, no_proxy).
    """

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self.stop = threading.Event()
        self.reached: set[str] = set()  # hosts that have answered anything
        self._not_before: dict[str, float] = {}
        self._lock = threading.Lock()

    def request(self, url: str, *, post: bytes | None = None, check=None, accept: str = "identity"):
        """`check(answer)`, or the Answer where no check is given, after as many attempts as patience has.

        check raises ValueError for a damaged answer, which is asked for again. Raises Missing, Failed, Stopped.
        """
        host = urllib.parse.urlsplit(url).netloc
        attempt = 0
        while True:
            self._wait(host)
            try:
                answer = self._once(url, post, accept)
                self.reached.add(host)
                return check(answer) if check else answer
            except ValueError as error:
                reason, after_s = str(error), None
            except _Retry as error:
                reason, after_s = str(error), error.after_s
                if error.reached:
                    self.reached.add(host)
            if after_s is not None and after_s > self.patience.longest_retry_after_s:
                raise Failed(f"{reason}, the server asks to wait {after_s:.0f} s")
            attempt += 1
            reached = host in self.reached
            if attempt >= (self.patience.attempts if reached else self.patience.attempts_unreached):
                raise Failed(f"{reason} ({attempt} attempts)", reached)
            self._hold(host, after_s, self.patience.delay_s(attempt - 1, url))

    def _wait(self, host: str) -> None:
        """Until nobody has to wait for this host, or the download ends."""
        while True:
            with self._lock:
                left_s = self._not_before.get(host, 0.0) - time.monotonic()
            if self.stop.wait(max(left_s, 0.0)):
                raise Stopped
            if left_s <= 0:
                return

    def _hold(self, host: str, after_s: float | None, delay_s: float) -> None:
        """The server's own wish holds for all threads, a delay of ours only for this one."""
        if after_s is not None:
            with self._lock:
                self._not_before[host] = max(self._not_before.get(host, 0.0), time.monotonic() + after_s)
            delay_s = min(delay_s, after_s)
        if self.stop.wait(delay_s):
            raise Stopped

    def _once(self, url: str, post: bytes | None, accept: str) -> Answer:
        headers = {"User-Agent": AGENT, "Accept-Encoding": accept}
        if post is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data=post, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=self.patience.timeout_s) as response:
                return self._read(response)
        except urllib.error.HTTPError as error:
            with error:
                self.reached.add(urllib.parse.urlsplit(url).netloc)
                if error.code in GONE:
                    raise Missing(error.code) from None
                if error.code in BUSY:
                    raise _Retry(f"status {error.code}", after_s=retry_after_s(error.headers)) from None
                raise Failed(f"status {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise _Retry(_plain(error.reason), reached=False) from None
        except TimeoutError:
            raise _Retry(f"no answer within {self.patience.timeout_s:g} s") from None
        except (http.client.HTTPException, ConnectionError, OSError) as error:
            raise _Retry(_plain(error)) from None

    def _read(self, response: http.client.HTTPResponse) -> Answer:
        declared = response.headers.get("Content-Length")
        chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
        deadline = time.monotonic() + self.patience.request_s
        parts, size = [], 0
        while block := response.read1(BLOCK):
            parts.append(block)
            size += len(block)
            if self.stop.is_set():
                raise Stopped
            if time.monotonic() > deadline:
                raise _Retry(f"only {size:,} bytes within {self.patience.request_s:g} s")
        if declared is not None and not chunked and size != int(declared):
            raise _Retry(f"connection ended after {size:,} of {int(declared):,} bytes")
        coding = response.headers.get("Content-Encoding", "").lower()
        return Answer(b"".join(parts), "" if coding == "identity" else coding, chunked or declared is not None)


def retry_after_s(headers) -> float | None:
    """Seconds that a Retry-After header asks for (number or HTTP date, RFC 9110 10.2.3), None without a valid one."""
    value = (headers.get("Retry-After") or "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def gunzip(data: bytes) -> bytes:
    """Text of a whole gzip stream, of one or more members. Raises ValueError: not gzip, cut, damaged (CRC), or followed
    by junk.
    """
    parts = []
    while data or not parts:
        if not data.startswith(GZIP_MAGIC):
            found = "more bytes after the end of the stream" if parts else f"{data[:16]!r} at the start"
            raise ValueError(f"not a gzip stream: {found}")
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(data))
        except zlib.error as error:
            raise ValueError(f"damaged gzip stream: {error}") from None
        if not stream.eof:
            raise ValueError(f"gzip stream is cut after {len(data):,} bytes")
        data = stream.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def checked_host(value: str, origin: str) -> str:
    """A server address without trailing slash; https:// is assumed without a scheme. UserError names `origin`."""
    text = value.strip().rstrip("/")
    if "://" not in text:
        text = f"https://{text}"
    parts = urllib.parse.urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UserError(f"{origin} is {value!r}; expected a server address as https://files.example.org")
    return text


def _plain(error: object) -> str:
    """One line for a network error: its system text where it has one, otherwise its name and text."""
    if isinstance(error, TimeoutError):
        return "connection timed out"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
