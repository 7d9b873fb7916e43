"""`lsmod`: kernel modules that matter to GPUs and RDMA. The count of users says nothing: 0 is normal."""

from __future__ import annotations

import re

from ncclcheck.readers.telemetry.reader import Fields, LineReader

_OURS = re.compile(r"nvidia\w*|nv_peer_mem|gdrdrv|mlx[45]_\w+|ib_\w+|rdma_\w+|efa|irdma|bnxt_re|amdgpu")
# Modules of peer memory use the GPU driver: where that is listed without them they are not there, whatever is cut off.
_PEERS = ("nvidia_peermem", "nv_peer_mem")


class Lsmod(LineReader):
    kind = grammar = "lsmod"

    def take_head(self, line: int, fields: Fields) -> bool:
        return not self.told  # the list of another call

    def take_module(self, line: int, fields: Fields) -> bool:
        name, users = fields["name"], fields.get("users", "").split(",")
        if name == "nvidia":
            for peer in _PEERS:
                self._tell(line, peer, "yes" if peer in users else "no")
        return self._tell(line, name, "yes") if _OURS.fullmatch(name) else True

    def _tell(self, line: int, name: str, loaded: str) -> bool:
        said = [told.text for told in self.told if told.name == name]
        if not said:
            self.tell(line, "module", name, "loaded", loaded)
        return said in ([], [loaded])
