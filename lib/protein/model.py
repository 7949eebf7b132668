"""The network: message passing over the backbone graph, then a decoder that may see some residue types.

One set of weights serves three readings of a structure, told apart by one number `order` per residue: a neighbour j
shows its amino acid to i only where order_j < order_i, strictly. Where it does not, i receives j's encoder state.

- masked: visible residues 0, masked ones 1.
- any-order: a random number each.
- one-shot: all equal.

The layers follow the message-passing form of Dauparas et al. 2022 (doi:10.1126/science.add2187), restructured: the
first linear of a message is split into a part per edge and parts per node, the last one is applied after the sum, and
an edge is updated from the message it has already computed.
"""

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from lib.errors import UserError
from lib.protein.features import (
    EDGE_FEATURES,
    FEATURE_VERSION,
    NODE_FEATURES,
    OFFSET_ROWS,
    Graph,
    build_graph,
    edge_features,
)
from lib.protein.message import EdgeMessages, EmbedEdges, Gather, blocks, make_gather
from lib.protein.residues import ALPHABET

CLASSES = 20
MESSAGE_SCALE = 30.0
ROW_MULTIPLE = 128


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to rebuild the network from an export."""

    hidden_dim: int = 128
    num_encoder_layers: int = 3
    num_decoder_layers: int = 3
    k_neighbors: int = 48
    dropout: float = 0.1
    alphabet: str = ALPHABET
    feature_version: int = FEATURE_VERSION
    temperature: float = 1.0

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def of(options) -> "ModelConfig":
        """The fields of the same names of a trainer's options."""
        names = ("hidden_dim", "num_encoder_layers", "num_decoder_layers", "k_neighbors", "dropout")
        return ModelConfig(**{name: getattr(options, name) for name in names})

    @staticmethod
    def from_dict(values: dict) -> "ModelConfig":
        """Raises UserError for an alphabet or a feature version that this code does not have."""
        known = {name: values[name] for name in ModelConfig.__dataclass_fields__ if name in values}
        config = ModelConfig(**known)
        if config.alphabet != ALPHABET or config.feature_version != FEATURE_VERSION:
            raise UserError(
                f"the export has feature version {config.feature_version} and alphabet {config.alphabet!r}, expected "
                f"{FEATURE_VERSION} and {ALPHABET!r}; use the release of the code that wrote it"
            )
        return config


@dataclass(slots=True)
class Batch:
    """A flat batch: the residues of all units one after another, no padding."""

    coordinates: Tensor  # (residues, 4, 3) float32 angstrom
    present: Tensor  # (residues, 4) bool
    chain: Tensor  # (residues,) int64, different for every chain of the batch
    position: Tensor  # (residues,) int64, index along the chain
    aa: Tensor  # (residues,) int64, 20 = unknown
    unit_lengths: list[int]
    names: list[str]

    def to(self, device: torch.device) -> "Batch":
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("coordinates", "present", "chain", "position", "aa")
        }
        return Batch(**moved, unit_lengths=self.unit_lengths, names=self.names)

    @property
    def residues(self) -> int:
        return len(self.aa)

    def scorable(self) -> Tensor:
        """Residues that may be targets: a known type and a complete N, CA, C frame; (residues,) bool."""
        return (self.aa < CLASSES) & self.present[:, :3].all(1)


class FeedForward(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, h: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(h)))


class MessageLayer(nn.Module):
    """One round: messages to every residue, a feed-forward block, and new edge states where `updates_edges`."""

    def __init__(self, hidden: int, dropout: float, updates_edges: bool):
        super().__init__()
        self.own = nn.Linear(hidden, hidden)
        self.other = nn.Linear(hidden, hidden, bias=False)
        self.edge = _matrix(hidden)
        self.inner = _matrix(hidden)
        self.inner_bias = nn.Parameter(torch.zeros(hidden))
        self.out = nn.Linear(hidden, hidden)
        self.edge_out = _matrix(hidden) if updates_edges else None
        self.edge_out_bias = nn.Parameter(torch.zeros(hidden)) if updates_edges else None
        self.norm_message = nn.LayerNorm(hidden)
        self.norm_forward = nn.LayerNorm(hidden)
        self.feed_forward = FeedForward(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, h: Tensor, edges: Tensor, table: Tensor, gather: Gather, recompute: bool
    ) -> tuple[Tensor, Tensor]:
        """h (residues, hidden); edges (residues*slots, hidden); table (rows, hidden) -> the next h and edges."""
        result = EdgeMessages.apply(
            edges,
            self.own(h).float(),
            table.float(),
            gather,
            recompute,
            self.edge,
            self.inner,
            self.inner_bias,
            self.edge_out,
            self.edge_out_bias,
        )
        total, edges = result if self.edge_out is not None else (result, edges)
        h = self.norm_message(h + self.dropout(self.out(total / MESSAGE_SCALE)).float())
        return self.norm_forward(h + self.dropout(self.feed_forward(h)).float()), edges


def _matrix(hidden: int) -> nn.Parameter:
    """A square weight stored (in, out), as the message function multiplies it."""
    return nn.Parameter(torch.empty(hidden, hidden))


class ProteinModel(nn.Module):
    """Backbone in, 20 logits per residue out; `forward` also computes the loss so that it can be prepared whole."""

    def __init__(self, config: ModelConfig, background: Tensor | None = None):
        """background: (20,) log frequencies of the training residues, where the output bias starts."""
        super().__init__()
        self.config = config
        self.recompute = False  # trade time for memory in backward; not part of the weights
        hidden = config.hidden_dim
        self.node_in = nn.Linear(NODE_FEATURES, hidden)
        self.edge_in = nn.Parameter(torch.empty(EDGE_FEATURES, hidden))
        self.offset_in = nn.Parameter(torch.empty(OFFSET_ROWS, hidden))
        self.edge_norm = nn.LayerNorm(hidden)
        self.encoder = nn.ModuleList(
            MessageLayer(hidden, config.dropout, updates_edges=True) for _ in range(config.num_encoder_layers)
        )
        self.residue_in = nn.Embedding(len(ALPHABET), hidden)
        self.decoder = nn.ModuleList(
            MessageLayer(hidden, config.dropout, updates_edges=False) for _ in range(config.num_decoder_layers)
        )
        self.logits_out = nn.Linear(hidden, CLASSES)
        self.reset_parameters(background)

    def reset_parameters(self, background: Tensor | None) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.normal_(self.offset_in, std=0.5)
        nn.init.normal_(self.residue_in.weight, std=1.0)
        with torch.no_grad():
            self.logits_out.weight.mul_(0.1)
            self.logits_out.bias.copy_(torch.full((CLASSES,), -math.log(CLASSES)) if background is None else background)

    def graph(self, batch: Batch) -> Graph:
        return build_graph(
            batch.coordinates, batch.present, batch.chain, batch.position, batch.unit_lengths, self.config.k_neighbors
        )

    def _embed_edges(self, graph: Graph, dtype: torch.dtype) -> Tensor:
        """(residues*slots, hidden) in the compute type."""
        parts = blocks(*graph.neighbours.shape, graph.neighbours.device)
        features = [edge_features(graph, lo, hi, dtype) for lo, hi, _ in parts]
        rows = make_gather(graph.offset_row, OFFSET_ROWS, None)
        embedded = EmbedEdges.apply(self.edge_in, self.offset_in, rows, features, [span for _, _, span in parts])
        return functional.layer_norm(
            embedded, embedded.shape[-1:], self.edge_norm.weight.to(dtype), self.edge_norm.bias.to(dtype)
        )

    def encode(self, graph: Graph) -> tuple[Tensor, Tensor, Gather]:
        """Node states (rows, hidden), edge states (residues*slots, hidden) and the gather of the graph.

        Rows are the residues, filled up with ROW_MULTIPLE - 1 empty ones at most, which nothing reads: see `blocks` on
        why few different sizes matter.
        """
        device = graph.nodes.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else torch.float32
        rows = -(-len(graph.nodes) // ROW_MULTIPLE) * ROW_MULTIPLE
        gather = make_gather(graph.neighbours, rows, graph.slot_valid)
        h = self.node_in(functional.pad(graph.nodes, (0, 0, 0, rows - len(graph.nodes)))).float()
        edges = self._embed_edges(graph, dtype)
        for layer in self.encoder:
            h, edges = layer(h, edges, layer.other(h), gather, self.recompute)
        return h, edges, gather

    def decode(self, h: Tensor, edges: Tensor, gather: Gather, aa: Tensor, order: Tensor) -> Tensor:
        """Logits (residues, 20) when a residue sees the types of neighbours of lower order; first three of `encode`."""
        rows = len(h)
        visible = order[gather.index] < order[:, None]  # (residues, slots), strict: a residue never sees itself
        row = torch.where(visible, gather.index, gather.index + rows)
        both = make_gather(row, 2 * rows, gather.valid)
        encoded, residue = h, self.residue_in(functional.pad(aa, (0, rows - len(aa)), value=CLASSES))
        for layer in self.decoder:
            table = layer.other(torch.cat((h + residue, encoded)))
            h, _ = layer(h, edges, table, both, self.recompute)
        return self.logits_out(h)[: len(aa)].float()

    def logits(self, batch: Batch, order: Tensor) -> Tensor:
        return self.decode(*self.encode(self.graph(batch)), batch.aa, order)

    def forward(self, batch: Batch, order: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Sum of cross-entropy in nats over the targets, and the number of targets recovered.

        Args:
            order: (residues,) visibility order. target: (residues,) bool, a subset of `batch.scorable()`.
        """
        logits = self.logits(batch, order)
        loss = functional.cross_entropy(logits, batch.aa.clamp_max(CLASSES - 1), reduction="none")
        correct = (logits.argmax(-1) == batch.aa) & target
        return torch.where(target, loss, 0.0).sum(), correct.sum()
