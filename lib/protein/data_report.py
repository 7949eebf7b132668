"""The data report: what was in the files, what was kept, and why the rest was not.

`DataReport.add` takes each `FileResult` (or the summary of one that a cache has kept); `to_dict` is complete and goes
to data_report.json, `table` shortens long lists of names for the terminal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lib.protein.structure import REASONS, FileResult

# key of the counts -> label in the printed table, in print order
COUNT_LABELS = {
    "residues_in": "residues in",
    "residues_kept": "residues kept",
    "residues_x": "kept as X (unknown)",
    "residues_incomplete": "kept with missing backbone atoms",
    "altlocs_resolved": "altlocs resolved",
    "microheterogeneity": "microheterogeneity resolved",
    "insertion_codes": "insertion codes",
    "modified_mapped": "modified residues mapped",
    "caps_dropped": "terminal caps dropped",
    "breaks": "chain breaks",
    "duplicate_atoms_repaired": "duplicate atoms repaired",
    "seqres_missing": "SEQRES residues without coordinates",
    "models_dropped": "models dropped",
    "legacy_column_files": "files with legacy columns 73-80",
    "plddt_files": "files with pLDDT",
    "assembly_copies": "assembly copies",
    "assembly_chains_left_out": "chains outside the assembly",
    "assembly_as_written": "files without assembly, as written",
    "shifted_name_files": "files with atom names out of column",
    "chains_renamed": "chains renamed (same id)",
    "other_polymer_chains": "chains of other polymers (DNA, RNA, ...)",
}
PRINTED_NAMES = 6


def summarise(result: FileResult) -> dict:
    """What the report needs of one file, JSON-able; caches keep it so that unchanged files need no second reading."""
    return {
        "file": result.file,
        "counts": {key: int(value) for key, value in result.counts.items() if value},
        "rejections": [[item.chain, item.reason, item.detail] for item in result.rejections],
        "entries": sorted({chain.entry for chain in result.chains}),
        "chains": len(result.chains),
        "sequences": sorted({_sequence_key(chain.aa.tobytes()) for chain in result.chains}),
    }


def _sequence_key(sequence: bytes) -> str:
    return hashlib.blake2b(sequence, digest_size=8).hexdigest()


@dataclass
class DataReport:
    """Sums over files. Sections that others fill: `set_clusters`, `set_split`."""

    files: int = 0
    files_used: int = 0
    chains: int = 0
    entries: set[str] = field(default_factory=set)
    sequences: set[str] = field(default_factory=set)
    counts: Counter = field(default_factory=Counter)
    rejections: dict[str, list[dict]] = field(default_factory=dict)  # reason -> [{file, chain, detail}]
    clusters: dict = field(default_factory=dict)
    split: dict = field(default_factory=dict)

    def add(self, result: FileResult) -> None:
        self.add_summary(summarise(result))

    def add_summary(self, summary: dict) -> None:
        """Count one file by its `summarise` dict."""
        self.files += 1
        self.files_used += summary["chains"] > 0
        self.chains += summary["chains"]
        self.entries.update(summary["entries"])
        self.sequences.update(summary["sequences"])
        self.counts.update({key: value for key, value in summary["counts"].items() if key != "files"})
        for chain, reason, detail in summary["rejections"]:
            named = {"file": summary["file"], "chain": chain, "detail": detail}
            self.rejections.setdefault(reason, []).append(named)

    def merge(self, other: DataReport) -> None:
        """Add the files of another report (of other files)."""
        self.files += other.files
        self.files_used += other.files_used
        self.chains += other.chains
        self.entries |= other.entries
        self.sequences |= other.sequences
        self.counts.update(other.counts)
        for reason, items in other.rejections.items():
            self.rejections.setdefault(reason, []).extend(items)
        self.clusters = self.clusters or other.clusters
        self.split = self.split or other.split

    def set_clusters(self, labels: Iterable[int]) -> None:
        """Number and sizes (in chains) of homology clusters, from the label of each chain."""
        sizes = Counter(int(label) for label in labels)
        self.clusters = {"count": len(sizes), "largest_chains": max(sizes.values(), default=0)}

    def set_split(self, sizes: dict[str, dict[str, int]]) -> None:
        """Sizes of the parts, as {"train": {"units": 400, "residues": 150000}, ...}."""
        self.split = sizes

    def to_dict(self) -> dict:
        """JSON-able, complete (every rejected file and chain is named), in a stable order."""
        return {
            "files": self.files,
            "files_used": self.files_used,
            "entries": len(self.entries),
            "chains_kept": self.chains,
            "distinct_sequences": len(self.sequences),
            "counts": {key: int(self.counts.get(key, 0)) for key in (*COUNT_LABELS, *self._other_counts())},
            "rejections": {
                reason: {
                    "meaning": REASONS[reason],
                    "count": len(items),
                    "items": sorted(items, key=lambda item: (item["file"], item["chain"])),
                }
                for reason, items in sorted(self.rejections.items())
            },
            "clusters": self.clusters,
            "split": self.split,
        }

    def _other_counts(self) -> list[str]:
        return sorted(key for key in self.counts if key not in COUNT_LABELS)

    def rejected(self, reason: str) -> list[str]:
        """Names (`file` or `file:chain`) rejected for one reason, sorted."""
        return sorted(_name(item) for item in self.rejections.get(reason, []))

    def table(self) -> str:
        """Text for the terminal: one line a figure, one line a reason with the first names."""
        rows = [
            ("files in", self.files, f"{self.files_used} with usable chains"),
            ("entries", len(self.entries), ""),
            ("chains kept", self.chains, f"{len(self.sequences)} distinct sequences"),
        ]
        always = ("residues_in", "residues_kept")
        for key, label in COUNT_LABELS.items():
            if self.counts.get(key, 0) or key in always:
                rows.append((label, self.counts.get(key, 0), ""))
        if self.clusters:
            largest = f"largest holds {self.clusters['largest_chains']:,} chains"
            rows.append(("homology clusters", self.clusters["count"], largest))
        for part, sizes in self.split.items():
            rows.append((f"split: {part}", next(iter(sizes.values()), 0), _sizes_text(sizes)))
        for reason in sorted(self.rejections, key=lambda name: (-len(self.rejections[name]), name)):
            rows.append((f"rejected: {reason}", len(self.rejections[reason]), _short_list(self.rejected(reason))))
        width = max(len(label) for label, _, _ in rows)
        return "\n".join(f"{label:<{width}}  {value:>11,}  {note}".rstrip() for label, value, note in rows)


def _name(item: dict) -> str:
    return f"{item['file']}:{item['chain']}" if item["chain"] else item["file"]


def _short_list(names: list[str]) -> str:
    shown = ", ".join(name if len(name) <= 40 else f"{name[:18]}...{name[-19:]}" for name in names[:PRINTED_NAMES])
    return shown if len(names) <= PRINTED_NAMES else f"{shown}, ... {len(names) - PRINTED_NAMES} more"


def _sizes_text(sizes: dict[str, int]) -> str:
    return ", ".join(f"{value:,} {unit}" for unit, value in sizes.items())
