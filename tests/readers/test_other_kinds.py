"""What a check says of inputs that could not be read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncclcheck.inputs.source import file_source
from ncclcheck.readers.read import read_sources

FOLDER = Path(__file__).parents[2] / "fixtures" / "topo"


@pytest.mark.parametrize(("name", "said"), [("lost-characters.txt", "cannot be read: 'SY'"), ("raw-tabs.txt", "")])
def test_damage_of_a_matrix_is_told(name: str, said: str) -> None:
    (reading,) = read_sources([file_source(str(FOLDER / name), name)]).inputs
    assert reading.kinds == ("topo-matrix",)
    if said:
        (note,) = reading.notes
        assert note.startswith("the matrix at line ") and said in note
    else:
        assert reading.notes == ()
