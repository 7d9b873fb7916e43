import pytest

from ncclcheck.readers.grammar import DirectParser


@pytest.fixture(scope="session")
def direct() -> DirectParser:
    """Lark itself, line by line: what the tables and the projection are held to."""
    return DirectParser()
