"""Attention by tiles: the scores of a tile stay with the invocation, or workgroup, that has it."""
