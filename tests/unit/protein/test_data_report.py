import json

from structure_texts import chain, pdb_text, residue

from lib.protein.data_report import DataReport, summarise
from lib.protein.reading import read_bytes


def results():
    altered = [*chain(10), *residue(10, name="MSE", het=True), *chain(13, first=11), *chain(5, chain="P", z=30.0)]
    yield read_bytes(pdb_text(altered), "1abc.pdb")
    yield read_bytes(pdb_text([*chain(24), *chain(24, chain="B", z=20.0)]), "2abc.pdb")
    for index in range(9):
        yield read_bytes(b"", f"a_rather_long_folder_name/with_a_very_long_file_name_{index}.pdb")


def filled():
    report = DataReport()
    for result in results():
        report.add(result)
    return report


def test_figures_are_sums_over_files_and_every_rejection_is_named():
    data = filled().to_dict()
    assert (data["files"], data["files_used"], data["entries"], data["chains_kept"]) == (11, 2, 2, 3)
    assert data["distinct_sequences"] == 2
    counts = data["counts"]
    assert (counts["residues_in"], counts["residues_kept"], counts["modified_mapped"]) == (77, 72, 1)
    assert {reason: item["count"] for reason, item in data["rejections"].items()} == {"empty": 9, "too_short": 1}
    assert data["rejections"]["too_short"]["items"] == [
        {"file": "1abc.pdb", "chain": "P", "detail": "5 residues, minimum 20"}
    ]
    assert len(data["rejections"]["empty"]["items"]) == 9
    assert json.loads(json.dumps(data)) == data


def test_the_table_shortens_names_and_keeps_every_reason():
    text = filled().table()
    lines = {line.split("  ")[0]: line for line in text.splitlines()}
    assert "9" in lines["rejected: empty"] and "... 3 more" in lines["rejected: empty"]
    assert "1abc.pdb:P" in lines["rejected: too_short"]
    assert lines["residues kept"].split()[-1] == "72"
    assert max(map(len, text.splitlines())) < 400


def test_merge_and_summaries_give_the_same_report():
    whole, parts, stored = filled(), DataReport(), DataReport()
    for result in results():
        part = DataReport()
        part.add(result)
        parts.merge(part)
        stored.add_summary(json.loads(json.dumps(summarise(result))))
    assert whole.to_dict() == parts.to_dict() == stored.to_dict()


def test_sections_of_other_modules():
    report = filled()
    report.set_clusters([0, 0, 4])
    report.set_split({"train": {"units": 2, "residues": 48}, "val": {"units": 1, "residues": 24}})
    data = report.to_dict()
    assert data["clusters"] == {"count": 2, "largest_chains": 2}
    assert data["split"]["val"] == {"units": 1, "residues": 24}
    assert "split: val" in report.table() and "24 residues" in report.table()
