"""Biological assemblies: copies of the chains of a file, by its own operators (REMARK 350 or pdbx_struct_assembly)."""

from __future__ import annotations

import dataclasses
import itertools
import re
from dataclasses import dataclass

import gemmi
import numpy as np

from lib.protein.atom_table import Unusable
from lib.protein.structure import Chain, FileResult

OPERATORS = "_pdbx_struct_oper_list."
AXES = (1, 2, 3)


@dataclass(frozen=True)
class Generator:
    """Chains (author names in PDB files, label_asym_id in mmCIF) and the operators applied to each."""

    members: frozenset[str]
    operators: tuple[np.ndarray, ...]  # float64 (4, 4) each, acting on column vectors


Assemblies = dict[str, list[Generator]]


def pdb_assemblies(text: bytes) -> Assemblies:
    """Assemblies that the REMARK 350 records define; may be empty. Raises Unusable for broken records."""
    lines = [line for line in text.split(b"\n") if line.startswith(b"REMARK 350")]
    if not lines:
        return {}
    try:
        assemblies = gemmi.read_pdb_string(b"\n".join(lines) + b"\n").assemblies
    except (ValueError, RuntimeError) as error:
        raise Unusable("unreadable", f"REMARK 350: {' '.join(str(error).split())[:200]}") from None
    found: Assemblies = {}
    for assembly in assemblies:
        for item in assembly.generators:
            operators = tuple(_matrix(operator.transform) for operator in item.operators)
            found.setdefault(assembly.name, []).append(Generator(frozenset(item.chains), operators))
    return found


def cif_assemblies(text: bytes) -> Assemblies:
    """Assemblies of the first block, by pdbx_struct_assembly_gen; may be empty. Raises Unusable for broken text."""
    try:
        block = gemmi.cif.read_string(text)[0]
        tags = ["id", *(f"matrix[{i}][{j}]" for i in AXES for j in AXES), *(f"vector[{i}]" for i in AXES)]
        matrices = {}
        for row in block.find(OPERATORS, tags):
            values = np.array([float(gemmi.cif.as_string(value)) for value in list(row)[1:]])
            matrix = np.eye(4)
            matrix[:3, :3], matrix[:3, 3] = values[:9].reshape(3, 3), values[9:]
            matrices[row.str(0)] = matrix
        found: Assemblies = {}
        for row in block.find("_pdbx_struct_assembly_gen.", ["assembly_id", "oper_expression", "asym_id_list"]):
            names = frozenset(name.strip() for name in row.str(2).split(","))
            operators = tuple(
                np.linalg.multi_dot([np.eye(4), *(matrices[name] for name in product)])
                for product in expand_operators(row.str(1))
            )
            found.setdefault(row.str(0), []).append(Generator(names, operators))
        return found
    except KeyError as error:
        raise Unusable("unreadable", f"assembly: operator {error} is not defined") from None
    except (ValueError, RuntimeError) as error:
        raise Unusable("unreadable", f"assembly: {' '.join(str(error).split())[:200]}") from None


def expand_operators(expression: str) -> list[tuple[str, ...]]:
    """Products of operator names of an oper_expression: "1,2" or "(1-60)" or "(X0)(1-3,7)"; applied from the right."""
    groups = re.findall(r"\(([^()]*)\)", expression) or [expression]
    names = []
    for group in groups:
        expanded = []
        for part in group.replace(" ", "").split(","):
            first, dash, last = part.partition("-")
            if dash and first.isdigit() and last.isdigit():
                expanded += [str(number) for number in range(int(first), int(last) + 1)]
            else:
                expanded.append(part)
        names.append(expanded)
    return list(itertools.product(*names))


def build_assembly(result: FileResult, keys: list[str], assemblies: Assemblies, wanted: int) -> None:
    """Replace the chains of the result by those of assembly `wanted`.

    keys: for each chain the name that assemblies use. The first copy of a chain keeps its id, later ones are marked
    with `copy_of` and a running number. A file that defines no assembly at all is taken as written and counted. Raises
    Unusable when it defines others only.
    """
    if not assemblies:
        result.counts["assembly_as_written"] += 1
        return
    if str(wanted) not in assemblies:
        raise Unusable("no_assembly", f"assembly {wanted} is not defined; the file has {', '.join(assemblies)}")
    copies: dict[str, int] = {}
    taken = {chain.id for chain in result.chains}
    chains = []
    for generator in assemblies[str(wanted)]:
        for operator in generator.operators:
            for chain, key in zip(result.chains, keys, strict=True):
                if key in generator.members:
                    number = copies.get(chain.id, 0) + 1
                    while number > 1 and f"{chain.id}-{number}" in taken:
                        number += 1
                    copies[chain.id] = number
                    chains.append(_copy(chain, operator, number))
                    taken.add(chains[-1].id)
    if not chains:
        raise Unusable("no_assembly", f"assembly {wanted} holds none of the usable chains")
    result.counts["assembly_copies"] += len(chains) - len(copies)
    result.counts["assembly_chains_left_out"] += len(result.chains) - len(copies)
    result.chains = chains


def _matrix(transform: gemmi.Transform) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = transform.mat.tolist(), transform.vec.tolist()
    return matrix


def _copy(chain: Chain, operator: np.ndarray, number: int) -> Chain:
    """The chain moved by the operator; a copy of its own from the second on."""
    moved = chain.coordinates.astype(np.float64) @ operator[:3, :3].T + operator[:3, 3]  # (residues, 4, 3)
    absent = (chain.present[:, None] >> np.arange(4)) & 1 == 0
    moved[absent] = 0.0
    changes = {"coordinates": moved.astype(np.float32)}
    if number > 1:
        changes |= {"id": f"{chain.id}-{number}", "name": f"{chain.name}-{number}", "copy_of": chain.id}
    return dataclasses.replace(chain, **changes)
