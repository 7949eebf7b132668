"""Small PDB and mmCIF texts for the reading tests: straight backbones with chosen names, numbers and defects."""

from __future__ import annotations

from dataclasses import dataclass, replace

STEP = 3.8  # angstrom between CA atoms; C to the next N is 1.33
OFFSETS = {"N": 0.0, "CA": 1.25, "C": 2.47, "O": 2.47, "CB": 1.25}
HEIGHTS = {"N": 0.0, "CA": 0.5, "C": 0.0, "O": -1.2, "CB": 2.0}
SEQUENCE = ("ALA", "GLY", "SER", "LEU", "LYS")


@dataclass(frozen=True)
class Atom:
    name: str = "CA"
    residue: str = "ALA"
    chain: str = "A"
    number: int = 1
    x: float | str = 0.0
    y: float | str = 0.0
    z: float | str = 0.0
    altloc: str = ""
    insertion: str = ""
    occupancy: float = 1.0
    b_factor: float = 20.0
    het: bool = False
    # mmCIF only
    label_seq: int | None = None
    asym: str = ""
    entity: str = "1"
    model: int = 1

    def pdb(self, serial: int = 1) -> str:
        record = "HETATM" if self.het else "ATOM  "
        name = self.name if len(self.name) == 4 else f" {self.name:<3}"
        xyz = "".join(
            value.rjust(8) if isinstance(value, str) else f"{value:8.3f}" for value in (self.x, self.y, self.z)
        )
        return (
            f"{record}{serial:5d} {name}{self.altloc or ' '}{self.residue:>3} {self.chain:1}{self.number:4d}"
            f"{self.insertion or ' '}   {xyz}{self.occupancy:6.2f}{self.b_factor:6.2f}          {self.name[0]:>2}  "
        )

    def cif(self, serial: int = 1) -> str:
        values = (
            "HETATM" if self.het else "ATOM", serial, self.name[0], self.name, self.altloc or ".", self.residue,
            self.asym or self.chain, self.entity, "." if self.label_seq is None else self.label_seq,
            self.insertion or "?", self.x, self.y, self.z, self.occupancy, self.b_factor, self.number, self.chain,
            self.model,
        )  # fmt: skip
        return " ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in values)


CIF_TAGS = (
    "group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id",
    "label_entity_id", "label_seq_id", "pdbx_PDB_ins_code", "Cartn_x", "Cartn_y", "Cartn_z", "occupancy",
    "B_iso_or_equiv", "auth_seq_id", "auth_asym_id", "pdbx_PDB_model_num",
)  # fmt: skip
ENTITIES = "_entity_poly.entity_id 1\n_entity_poly.type 'polypeptide(L)'\n#\n"


def residue(position: int, name: str = "", atoms=("N", "CA", "C", "O", "CB"), **changes) -> list[Atom]:
    """Atoms of the residue at a position (0..) of the straight chain."""
    made = []
    for atom in atoms:
        made.append(
            replace(
                Atom(
                    name=atom,
                    residue=name or SEQUENCE[position % len(SEQUENCE)],
                    number=position + 1,
                    label_seq=position + 1,
                    x=round(STEP * position + OFFSETS[atom], 3),
                    y=HEIGHTS[atom],
                ),
                **changes,
            )
        )
    return made


def chain(length: int = 24, first: int = 0, **changes) -> list[Atom]:
    return [atom for position in range(first, first + length) for atom in residue(position, **changes)]


def pdb_text(atoms, header: str = "", ter: bool = True, end: str = "END\n") -> bytes:
    """PDB text; with `ter` a TER follows the last ATOM of each chain (HETATM of modified residues go before it)."""
    lines = []
    for index, atom in enumerate(atoms):
        lines.append(atom.pdb(index + 1) if isinstance(atom, Atom) else atom)
        following = atoms[index + 1] if index + 1 < len(atoms) else None
        if ter and isinstance(atom, Atom) and not (isinstance(following, Atom) and following.chain == atom.chain):
            lines.append("TER")
    return (header + "\n".join(lines) + "\n" + end).encode()


def cif_text(atoms, head: str = ENTITIES, tags=CIF_TAGS, tail: str = "#\n", name: str = "TEST") -> bytes:
    rows = []
    for index, atom in enumerate(atoms):
        values = atom.cif(index + 1).split()
        rows.append(" ".join(values[CIF_TAGS.index(tag)] for tag in tags))
    names = "".join(f"_atom_site.{tag}\n" for tag in tags)
    return f"data_{name}\n#\n{head}loop_\n{names}".encode() + ("\n".join(rows) + "\n" + tail).encode()
