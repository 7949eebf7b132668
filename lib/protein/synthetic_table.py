"""The fixed numbers of the synthetic law, tuned on the default set (512 chains, seed 0).

Preferences are those of real proteins in kind (helix formers, branched strands, glycine at positive phi, opposite
charges in contact) and exaggerated in size, so that the exact perplexities come out near 18 (unigram), 9.0 (backbone
only) and 7.5 (15 % masked). Logits in nats.
"""

from lib.protein.synthetic_law import LETTERS, Law

OWN_LOGITS = """
#  helix strand  ppII   left    end  buried
A   1.56  -1.44  -0.34  -1.13   0.46   0.72
C  -0.92   0.50  -1.08  -1.87  -0.76   1.85
D   0.43  -1.00   0.90   1.69   0.43  -1.64
E   0.72  -1.33  -1.18  -0.86  -0.86  -2.06
F  -0.12   1.30  -0.28  -1.07   0.04   2.06
G  -0.91  -0.28   1.30   4.94   1.62   0.21
H   0.26   0.42  -0.06   0.26   0.26  -0.21
I   0.05   1.79  -0.74  -2.32   0.21   2.06
K   0.54  -1.04  -0.09  -0.57   0.38  -2.06
L   1.37   0.42  -0.06  -1.16   0.26   2.06
M   0.27  -0.68  -1.78  -2.26   0.11   1.85
N  -0.48  -0.95   0.94   3.00   0.47  -1.23
P  -2.54  -1.75   3.78  -2.23   0.30  -0.21
Q   0.31  -0.80  -1.11  -0.80  -0.80  -1.64
R   0.75  -0.36  -0.68  -0.36  -0.36  -1.64
S   0.33   0.80   2.54   1.28   2.23  -0.62
T  -0.50   1.72   0.93  -0.65   0.45  -0.21
V  -0.39   2.14  -0.39  -1.97   0.56   2.06
W  -1.03   0.24  -1.35  -2.45  -1.03   1.85
Y  -0.33   1.41  -0.49  -1.28  -0.18   0.72
"""
PAIR_GROUPS = ("DE", "KRH", "ILVM", "FYWC", "NQSTP", "AG")
PAIR_LOGITS = """
#        by the group of the residue, in the order above; rows are the group of the parent
DE    -1.28   1.91   0.00   0.00   0.26   0.00
KRH    1.91  -1.28   0.00   0.00   0.26   0.00
ILVM   0.00   0.00   0.51  -0.51   0.00   1.28
FYWC   0.00   0.00  -0.26   1.66   0.00   0.00
NQSTP  0.26   0.26   0.00   0.00   1.66   0.00
AG     0.00   0.00   1.28   0.00   0.00  -0.38
"""


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines() if not line.startswith("#")]


def _law() -> Law:
    own = {row[0]: [float(number) for number in row[1:]] for row in _rows(OWN_LOGITS)}
    columns = [tuple(own[letter][k] for letter in LETTERS) for k in range(6)]
    group = {letter: index for index, members in enumerate(PAIR_GROUPS) for letter in members}
    by_group = {row[0]: [float(number) for number in row[1:]] for row in _rows(PAIR_LOGITS)}
    pair = tuple(tuple(by_group[PAIR_GROUPS[group[above]]][group[letter]] for letter in LETTERS) for above in LETTERS)
    return Law(tuple(columns[:5]), columns[5], pair)


LAW = _law()
