"""Workers that share a machine (pytest-xdist) share its cores."""

import os

import torch


def pytest_configure():
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
