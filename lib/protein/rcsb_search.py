"""Named searches of the PDB through the RCSB search API: which entries are worth training on."""

from __future__ import annotations

import difflib
import hashlib
import json

from lib.errors import UserError
from lib.protein.transfer import Answer, Client, Failed, Missing

PATH = "/rcsbsearch/v2/query"


def _term(attribute: str, operator: str, value) -> dict:
    parameters = {"attribute": attribute, "operator": operator, "value": value}
    return {"type": "terminal", "service": "text", "parameters": parameters}


def _protein(methods: list[str], resolution: float, residues: int, *more: dict) -> dict:
    """Entries with protein, by the given methods, better than a resolution in angstrom, below a number of residues."""
    nodes = [
        _term("rcsb_entry_info.polymer_entity_count_protein", "greater_or_equal", 1),
        _term("exptl.method", "in", methods),
        _term("rcsb_entry_info.resolution_combined", "less_or_equal", resolution),
        _term("rcsb_entry_info.deposited_polymer_monomer_count", "less_or_equal", residues),
        *more,
    ]
    return {"type": "group", "logical_operator": "and", "nodes": nodes}


_XRAY = ["X-RAY DIFFRACTION"]
_XRAY_EM = ["X-RAY DIFFRACTION", "ELECTRON MICROSCOPY"]
_SINGLE = _term("rcsb_entry_info.polymer_entity_count", "equals", 1)
_PROTEIN_ENTITY = _term("entity_poly.rcsb_entity_polymer_type", "exact_match", "Protein")

# name -> (what it finds, query, sequence identity in % whose representatives are kept, or None for every entry)
PRESETS: dict[str, tuple[str, dict, int | None]] = {
    "small": (
        "X-ray <= 1.8 A, one protein of <= 300 residues, one entry for each cluster of 30 % identity",
        _protein(_XRAY, 1.8, 300, _SINGLE, _PROTEIN_ENTITY),
        30,
    ),
    "xray30": (
        "X-ray <= 2.5 A, <= 3,000 residues, one entry for each cluster of 30 % identity",
        _protein(_XRAY, 2.5, 3000, _PROTEIN_ENTITY),
        30,
    ),
    "xray95": (
        "X-ray <= 2.5 A, <= 3,000 residues, one entry for each cluster of 95 % identity",
        _protein(_XRAY, 2.5, 3000, _PROTEIN_ENTITY),
        95,
    ),
    "all35": (
        "X-ray and cryo-EM <= 3.5 A, < 10,000 residues, every entry (the selection of ProteinMPNN, without its date)",
        _protein(_XRAY_EM, 3.5, 9999),
        None,
    ),
}


def parse_preset(text: str) -> tuple[str, int | None]:
    """`NAME` or `NAME:COUNT` -> (name, count or None). UserError names the presets."""
    name, colon, count = text.partition(":")
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        known = "; ".join(f"{key}: {what}" for key, (what, _, _) in PRESETS.items())
        raise UserError(f"--rcsb_query {text}: no such preset; {hint}known are {known}")
    if colon and not (count.isdigit() and int(count) > 0):
        raise UserError(f"--rcsb_query {text}: {count!r} is no number of entries; write {name}:500 or {name}")
    return name, int(count) if colon else None


def request_body(name: str) -> dict:
    """The JSON of the search (https://search.rcsb.org), all hits in one answer."""
    _, query, identity = PRESETS[name]
    options: dict = {
        "return_all_hits": True,
        "results_verbosity": "compact",
        "results_content_type": ["experimental"],
    }
    if identity is not None:
        options["group_by"] = {
            "aggregation_method": "sequence_identity",
            "similarity_cutoff": identity,
            "ranking_criteria_type": {"sort_by": "rcsb_entry_info.resolution_combined", "direction": "asc"},
        }
        options["group_by_return_type"] = "representatives"
    return_type = "entry" if identity is None else "polymer_entity"
    return {"query": query, "return_type": return_type, "request_options": options}


def search(preset: str, host: str, client: Client) -> list[str]:
    """PDB ids (lower case, sorted) of a preset, written NAME or NAME:COUNT.

    COUNT takes that many by the hash of the id: the same ones every time, spread over the archive. UserError: unknown
    preset, no answer, an answer that is no result list, no hits.
    """
    name, count = parse_preset(preset)
    body = json.dumps(request_body(name)).encode()
    try:
        hits = client.request(host + PATH, post=body, check=_hits)
    except Missing as error:
        raise UserError(
            f"--rcsb_query {name}: {host}{PATH} is not there (status {error.status}); check the address"
        ) from None
    except Failed as error:
        raise UserError(
            f"--rcsb_query {name}: the search at {host} gave no usable answer ({error}); check the connection, or give "
            "a list of ids with --rcsb_ids"
        ) from None
    ids = sorted({hit.split("_")[0].lower() for hit in hits})  # 4HHB_1 is an entity of 4HHB
    if not ids:
        raise UserError(f"--rcsb_query {name}: the search at {host} found no entries; expected thousands")
    if count is not None:
        ids = sorted(sorted(ids, key=lambda entry: hashlib.blake2b(entry.encode(), digest_size=8).digest())[:count])
    return ids


def _hits(answer: Answer) -> list[str]:
    """Identifiers of an answer; an empty body is the API's way (status 204) to say that nothing was found."""
    if not answer.body.strip():
        return []
    found = json.loads(answer.body)  # its error is a ValueError
    hits = found.get("result_set") if isinstance(found, dict) else None
    if not isinstance(hits, list):
        raise ValueError("an answer without result_set")
    names = [hit.get("identifier") if isinstance(hit, dict) else hit for hit in hits]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a result_set that holds no identifiers")
    return names
