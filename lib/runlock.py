"""The lock of a run directory: one process at a time."""

import atexit
import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import ClassVar

from lib.errors import UserError
from lib.files import disk_errors

LOCK_WAIT_S = 5.0


class RunLock:
    """One process per run directory. The kernel holds the lock and drops it when the process dies, however it dies.

    A POSIX record lock: forked data workers do not inherit it, network file systems pass it on. The file's text
    (process and host) is for messages: text that stays behind means that the former owner was killed.
    """

    # Record locks do not exclude the process that holds them: it keeps its own list.
    held: ClassVar[dict[Path, "RunLock"]] = {}

    def __init__(self, path: Path):
        self.path = path.absolute()
        self.descriptor: int | None = None
        self.process = os.getpid()

    def acquire(self, wait_s: float | None = None) -> list[str]:
        """Returns a line when the lock of a killed process is taken over. Raises UserError when the run is in use.

        A killed owner may take a moment to disappear, hence the wait.
        """
        if self.path in RunLock.held:
            raise UserError(f"{self.path.parent} is in use by this very process: close its RunDirectory first")
        with disk_errors(self.path.parent, 0, "lock the run"):
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        until = time.monotonic() + (LOCK_WAIT_S if wait_s is None else wait_s)
        try:
            while not self._try():
                if time.monotonic() >= until:
                    owner = self._owner()
                    raise UserError(
                        f"{self.path.parent} is in use by process {owner.get('pid')} on {owner.get('host')}: wait for"
                        " it, stop it, or give another --output_dir"
                    )
                time.sleep(0.1)
        except BaseException:
            os.close(self.descriptor)
            self.descriptor = None
            raise
        owner = self._owner()
        self._write({"pid": os.getpid(), "host": socket.gethostname(), "started_unix_s": int(time.time())})
        RunLock.held[self.path] = self
        atexit.register(self.release)
        if not owner:
            return []
        return [f"took over {self.path.parent} from process {owner.get('pid')} on {owner.get('host')}, which is gone"]

    def release(self) -> None:
        """Empty and unlock; without effect when not held, or in a forked child."""
        if self.descriptor is None or os.getpid() != self.process:
            return
        RunLock.held.pop(self.path, None)
        # The run directory may have been deleted meanwhile: the descriptor still works.
        self._write(None)
        os.close(self.descriptor)
        self.descriptor = None
        atexit.unregister(self.release)

    def _try(self) -> bool:
        try:
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                return not self._owner_lives()
            raise
        return True

    def _owner_lives(self) -> bool:
        """For file systems without locks: whether the process named in the file exists on this host.

        Raises UserError for one on another host, which cannot be seen from here.
        """
        owner = self._owner()
        if owner and owner.get("host") != socket.gethostname():
            raise UserError(
                f"{self.path.parent} was in use by process {owner.get('pid')} on {owner.get('host')} and its file"
                f" system has no locks: cannot tell whether it lives; delete {self.path.name} there if it is gone"
            )
        return Path("/proc", str(owner.get("pid"))).exists()

    def _owner(self) -> dict:
        text = os.pread(self.descriptor, 4096, 0).decode("utf-8", "replace")
        try:
            return json.loads(text) if text.strip() else {}
        except ValueError:
            return {"pid": "unknown", "host": "an unknown host"}

    def _write(self, owner: dict | None) -> None:
        os.ftruncate(self.descriptor, 0)
        if owner is not None:
            os.pwrite(self.descriptor, json.dumps(owner).encode(), 0)
