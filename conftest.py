"""Imports Pyrite under its own name before pytest collects doctests from its files by path.

Otherwise the first file given on pytest's command line runs twice, and declares its ops twice.
"""

import pyrite as pyrite
