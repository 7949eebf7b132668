"""Biological assemblies: copies of the chains of a file, by its own operators (REMARK 350 or pdbx_struct_assembly)."""

from __future__ import annotations

import dataclasses

import gemmi
import numpy as np

from lib.protein.atom_table import Unusable
from lib.protein.structure import Chain, FileResult


def pdb_assemblies(text: bytes) -> gemmi.AssemblyList:
    """Assemblies that the REMARK 350 records define; may be empty."""
    lines = [line for line in text.split(b"\n") if line.startswith(b"REMARK 350")]
    try:
        return gemmi.read_pdb_string(b"\n".join(lines) + b"\n").assemblies if lines else gemmi.Structure().assemblies
    except (ValueError, RuntimeError) as error:
        raise Unusable("unreadable", f"REMARK 350: {' '.join(str(error).split())[:200]}") from None


def cif_assemblies(text: bytes) -> gemmi.AssemblyList:
    """Assemblies of the first block, by pdbx_struct_assembly_gen; may be empty. Raises Unusable for broken text."""
    try:
        return gemmi.make_structure_from_block(gemmi.cif.read_string(text)[0]).assemblies
    except (ValueError, RuntimeError) as error:
        raise Unusable("unreadable", f"assembly: {' '.join(str(error).split())[:200]}") from None


def build_assembly(result: FileResult, keys: list[str], assemblies: gemmi.AssemblyList, wanted: int) -> None:
    """Replace the chains of the result by those of assembly `wanted`.

    keys: for each chain the name that assemblies use (author name in PDB files, label_asym_id in mmCIF). The first copy
    of a chain keeps its id, later ones are marked with `copy_of` and a running number. A file that defines no assembly
    at all is taken as written and counted. Raises Unusable when it defines others only.
    """
    if not len(assemblies):
        result.counts["assembly_as_written"] += 1
        return
    names = [assembly.name for assembly in assemblies]
    if str(wanted) not in names:
        raise Unusable("no_assembly", f"assembly {wanted} is not defined; the file has {', '.join(names)}")
    copies: dict[str, int] = {}
    taken = {chain.id for chain in result.chains}
    chains = []
    for generator in assemblies[names.index(str(wanted))].generators:
        members = set(generator.chains) | set(generator.subchains)
        for operator in generator.operators:
            for chain, key in zip(result.chains, keys, strict=True):
                if key in members:
                    number = copies.get(chain.id, 0) + 1
                    while number > 1 and f"{chain.id}-{number}" in taken:
                        number += 1
                    copies[chain.id] = number
                    chains.append(_copy(chain, operator.transform, number))
                    taken.add(chains[-1].id)
    result.counts["assembly_copies"] += len(chains) - len(copies)
    result.counts["assembly_chains_left_out"] += len(result.chains) - len(copies)
    if result.chains and not chains:
        raise Unusable("no_assembly", f"assembly {wanted} holds none of the usable chains")
    result.chains = chains


def _copy(chain: Chain, transform: gemmi.Transform, number: int) -> Chain:
    """The chain moved by the operator; a copy of its own from the second on."""
    rotation, shift = np.array(transform.mat.tolist()), np.array(transform.vec.tolist())
    moved = chain.coordinates.astype(np.float64) @ rotation.T + shift  # (residues, 4, 3)
    absent = (chain.present[:, None] >> np.arange(4)) & 1 == 0
    moved[absent] = 0.0
    changes = {"coordinates": moved.astype(np.float32)}
    if number > 1:
        changes |= {"id": f"{chain.id}-{number}", "name": f"{chain.name}-{number}", "copy_of": chain.id}
    return dataclasses.replace(chain, **changes)
