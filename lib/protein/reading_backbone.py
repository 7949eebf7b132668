"""First version: backbone chains through gemmi's structure tree (to be replaced by the vectorised route)."""

from __future__ import annotations

import gemmi
import numpy as np

from lib.protein import residues
from lib.protein.structure import Chain, FileResult, ReadOptions


def read_text(text: bytes, kind: str, stem: str, result: FileResult, options: ReadOptions) -> None:
    if kind == "pdb":
        lines = [line[:66] if line[:6] in (b"ATOM  ", b"HETATM") else line for line in text.split(b"\n")]
        structure = gemmi.read_pdb_string(b"\n".join(lines).decode("latin-1"))
    else:
        block = gemmi.cif.read_string(text.decode("latin-1")).sole_block()
        structure = gemmi.make_structure_from_block(block)
    if len(structure) == 0 or len(structure[0]) == 0:
        result.reject("empty", "no atoms")
        return
    structure.setup_entities()
    result.counts["models_dropped"] += len(structure) - 1
    for chain in structure[0]:
        polymer = [r for r in chain.get_polymer() if residues.residue_index(r.name) is not None]
        if not polymer or all(residues.residue_index(r.name) == 20 for r in polymer):
            continue
        _chain(chain.name, polymer, stem, structure.name, result, options)
    if not result.chains and not result.rejections:
        result.reject("no_protein", "no peptide chain")


def _chain(name, polymer, stem, entry, result, options) -> None:
    groups: dict = {}
    for residue in polymer:
        groups.setdefault((residue.seqid.num, residue.seqid.icode), []).append(residue)
    length = len(groups)
    coordinates = np.zeros((length, 4, 3), np.float32)
    present = np.zeros(length, np.uint8)
    aa = np.zeros(length, np.uint8)
    confidence = np.zeros(length, np.uint8)
    numbers = np.zeros(length, np.int32)
    insertions = {}
    for position, ((number, code), members) in enumerate(groups.items()):
        numbers[position] = number
        if code != " ":
            insertions[position] = code
        residue = members[0]
        aa[position] = residues.residue_index(residue.name)
        for kind, atom_name in enumerate(residues.BACKBONE):
            atoms = [a for a in residue if a.name == atom_name]
            if atoms:
                atom = max(atoms, key=lambda a: (a.occ, -ord(a.altloc)))
                coordinates[position, kind] = atom.pos.tolist()
                present[position] |= 1 << kind
                confidence[position] = min(255, max(0, round(atom.b_iso)))
    result.counts["residues_in"] += length
    if length < options.min_length:
        result.reject("too_short", f"{length} residues", name)
    elif not np.isfinite(coordinates).all():
        result.reject("nan_coordinates", "", name)
    elif (present & 1 == 0).mean() > 0.9 and not options.ca_only:
        result.reject("ca_only", "", name)
    elif (present & 8 == 0).mean() > 0.9 and not options.ca_only:
        result.reject("no_backbone", "no O atoms", name)
    else:
        result.counts["residues_kept"] += length
        result.chains.append(
            Chain(
                f"{stem}:{name}",
                result.file,
                entry,
                name,
                coordinates,
                present,
                aa,
                confidence,
                False,
                numbers,
                insertions,
            )
        )
