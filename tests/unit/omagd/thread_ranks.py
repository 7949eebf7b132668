"""A stand-in for `lib.ranks.Ranks`: the processes of a run as threads."""

import threading

import torch


class Ranks:
    """Process `index` of several; `sum_tensor` waits for all of them, as threads."""

    def __init__(self, index=0, others=None):
        self.index, self.device = index, torch.device("cpu")
        self.shared = others.shared if others else {}
        self.count, self.barrier = (others.count, others.barrier) if others else (1, None)

    @staticmethod
    def several(count):
        first = Ranks()
        first.count, first.barrier = count, threading.Barrier(count, timeout=60)
        return [first, *(Ranks(index, first) for index in range(1, count))]

    def sum_tensor(self, tensor):
        if self.count == 1:
            return tensor.clone()
        self.shared[self.index] = tensor.clone()
        self.barrier.wait()
        total = sum(self.shared[index] for index in range(self.count))
        self.barrier.wait()
        return total
