"""What is not seen, guessed from what is and was: observations as nodes, tokens of nodes, and who predicts them."""
