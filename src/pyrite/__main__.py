"""``python -m pyrite`` is the command line."""

from pyrite.cli import main

if __name__ == "__main__":
    main()
