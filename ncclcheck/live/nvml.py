"""NVML: what the driver of this machine says about its GPUs."""

from __future__ import annotations


class NoDriverError(Exception):
    """The driver cannot be asked; the text says why."""


def gpu_names() -> tuple[str, ...]:
    """Models of this machine's GPUs as the driver names them, by index.

    Raises NoDriverError where there is no driver or no GPU.
    """
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NoDriverError(str(error)) from None
    try:
        names = [
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(pynvml.nvmlDeviceGetCount())
        ]
    except pynvml.NVMLError as error:
        raise NoDriverError(str(error)) from None
    finally:
        pynvml.nvmlShutdown()
    if not names:
        raise NoDriverError("the driver sees no GPU")
    # old bindings give bytes
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
