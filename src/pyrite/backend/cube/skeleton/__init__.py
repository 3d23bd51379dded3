"""How kernels are made: one skeleton for each class of rules.

A skeleton knows a way of going over memory (a map, rows, folds, scans, a sort) and nothing of ops:
what is computed on the way is handed to it.  `lowering` names a skeleton for each op.
"""
