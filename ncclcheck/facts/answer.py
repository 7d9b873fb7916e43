"""Three-valued answers: a question that the input does not settle is `UNKNOWN`, and unknown never fails a rule."""

from enum import Enum


class Answer(Enum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, value: bool | None) -> "Answer":
        return cls.UNKNOWN if value is None else cls.YES if value else cls.NO
