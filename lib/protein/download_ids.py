"""Names of structures to download: PDB ids and AlphaFold DB ids, as words or in text files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lib.errors import UserError

AFDB_VERSION = 6
_PDB = re.compile(r"[1-9][a-z0-9]{3}|pdb_[0-9]{4}[1-9][a-z0-9]{3}", re.IGNORECASE)
_UNIPROT = r"(?:[OPQ][0-9][A-Z0-9]{3}[0-9]|[A-NR-Z][0-9](?:[A-Z][A-Z0-9]{2}[0-9]){1,2})"
_AFDB = re.compile(rf"(?:AF-)?({_UNIPROT})(?:-F([0-9]+))?(?:-model_v([0-9]+))?", re.IGNORECASE)


@dataclass(frozen=True)
class Wanted:
    """One structure: its kind (a key of SERVERS) and its id as in the file name."""

    kind: str
    id: str

    @property
    def file(self) -> str:
        return f"{self.id}.cif.gz"


def parse_id(text: str) -> Wanted | None:
    """The structure that a text names, None if it is no id.

    PDB: 1abc or pdb_00001abc. AlphaFold DB: a UniProt accession P12345, or AF-P12345-F1, each also with -model_v4 (else
    version AFDB_VERSION).
    """
    if _PDB.fullmatch(text):
        return Wanted("pdb", text.lower())
    if match := _AFDB.fullmatch(text):
        accession, fragment, version = match.groups()
        return Wanted("afdb", f"AF-{accession.upper()}-F{fragment or 1}-model_v{version or AFDB_VERSION}")
    return None


def read_ids(path: Path | str) -> list[str]:
    """Ids of a text file, separated by blanks, commas or line ends; from # to the end of a line is comment.

    Raises UserError: no file, no id in it, or a word that is no id (with its line).
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise UserError(f"--rcsb_ids {path}: {reason}; expected a text file of ids as 1abc, one per line") from None
    found: dict[str, None] = {}
    for number, line in enumerate(lines, start=1):
        for word in re.split(r"[\s,;]+", line.partition("#")[0].strip()):
            if not word:
                continue
            wanted = parse_id(word)
            if wanted is None:
                raise UserError(
                    f"--rcsb_ids {path}, line {number}: {word!r} is no id; expected a PDB id as 1abc (no chain letter) "
                    "or an AlphaFold DB id as AF-P12345-F1"
                )
            found[wanted.id] = None
    if not found:
        raise UserError(f"--rcsb_ids {path}: no ids in it; expected ids as 1abc, one per line")
    return list(found)


def wanted_structure(text: str) -> Wanted:
    """`parse_id`, or UserError."""
    wanted = parse_id(text)
    if wanted is None:
        raise UserError(f"{text!r} is no id; expected a PDB id as 1abc or an AlphaFold DB id as AF-P12345-F1")
    return wanted
