"""What the training itself took, without what is done beside it."""

import time


class StepClock:
    """CPU and wall seconds of the training loop; stopped while the model is evaluated or saved."""

    def __init__(self):
        self.start()

    def start(self) -> None:
        self._cpu, self._wall = time.process_time(), time.monotonic()

    def add_to(self, progress) -> None:
        """Add what passed since the last call or start to `progress.train_cpu_s` and `progress.train_wall_s`."""
        progress.train_cpu_s += time.process_time() - self._cpu
        progress.train_wall_s += time.monotonic() - self._wall
        self.start()
