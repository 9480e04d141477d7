"""``python -m ope_bench``: the command line, where no script is on the path."""

from ope_bench.cli import main

if __name__ == "__main__":
    main()
