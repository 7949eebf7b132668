"""Every trainer that the promise suite is run for; a further one joins by its `<name>_case.py` and one entry here."""

from grpo_case import GRPO
from omagd_case import OMAGD, PREDICTOR, RECONSTRUCTED, TOKENIZER
from protein_case import PROTEIN
from snakes_case import SNAKES

TRAINERS = (PROTEIN, SNAKES, GRPO, OMAGD, TOKENIZER, PREDICTOR, RECONSTRUCTED)
