"""What collectives of a job reach, healthy and as it is, and what that costs: one model, one table of constants.

`CONTRIBUTING.md`, "Numbers", shows the house.
"""
