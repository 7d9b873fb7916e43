"""From what the user named (files, globs, directories, `-`) to blocks of lines. Nothing of NCCL in here."""
