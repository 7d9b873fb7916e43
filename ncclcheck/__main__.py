"""`python -m ncclcheck` is the same program as `ncclcheck`."""

from ncclcheck.cli.main import main

main()
