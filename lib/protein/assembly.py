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
    return gemmi.read_pdb_string(b"\n".join(lines) + b"\n").assemblies if lines else gemmi.Structure().assemblies


def cif_assemblies(text: bytes) -> gemmi.AssemblyList:
    """Assemblies of the first block that pdbx_struct_assembly_gen defines; may be empty."""
    block = gemmi.cif.read_string(text)[0]
    return gemmi.make_structure_from_block(block).assemblies


def build_assembly(result: FileResult, keys: list[str], assemblies: gemmi.AssemblyList, number: int) -> None:
    """Replace the chains of the result by those of assembly `number`.

    keys: for each chain the name that assemblies use (author name in PDB files, label_asym_id in mmCIF). The first copy
    of a chain keeps its id, later ones are marked with `copy_of` and a running number. A file that defines no assembly
    at all is taken as written and counted. Raises Unusable when it defines others only.
    """
    if not len(assemblies):
        result.counts["assembly_as_written"] += 1
        return
    names = [assembly.name for assembly in assemblies]
    if str(number) not in names:
        raise Unusable("no_assembly", f"assembly {number} is not defined; the file has {', '.join(names)}")
    copies: dict[str, int] = {}
    chains = []
    for generator in assemblies[names.index(str(number))].generators:
        members = set(generator.chains) | set(generator.subchains)
        for operator in generator.operators:
            for chain, key in zip(result.chains, keys, strict=True):
                if key in members:
                    copies[chain.id] = copies.get(chain.id, 0) + 1
                    chains.append(_copy(chain, operator.transform, copies[chain.id]))
    result.counts["assembly_copies"] += len(chains) - len(copies)
    result.counts["assembly_chains_left_out"] += len(result.chains) - len(copies)
    if result.chains and not chains:
        raise Unusable("no_assembly", f"assembly {number} holds none of the usable chains")
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
