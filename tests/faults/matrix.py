"""Works through the requests of operations side by side: mostly they wait."""
from __future__ import annotations

import concurrent.futures
import threading

from cells import Recording, cells_of, record
from faults import FAULTS
from operations import Operation
from stand import Stand

WORKERS = 8


class Matrix:
    """Each thread has a stand of its own, and works through one request at a time."""

    def __init__(self, which: str):
        self.faults = [fault for fault in FAULTS if fault.main or which == "all"]
        self.pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        self.here = threading.local()
        self.stands: list[Stand] = []
        self.rows: dict[str, concurrent.futures.Future] = {}

    def stand(self, acked: bool) -> Stand:
        stands = self.here.__dict__
        if acked not in stands.setdefault("of", {}):
            stands["of"][acked] = Stand(acked)
            self.stands.append(stands["of"][acked])
        return stands["of"][acked]

    def begin(self, operations: list[Operation]) -> None:
        """Those of several nodes first, which take longest."""
        for operation in sorted(operations, key=lambda one: (-one.nodes, one.reads)):
            self.rows[operation.title] = self.pool.submit(self.row, operation)

    def row(self, operation: Operation) -> list[concurrent.futures.Future]:
        """Its requests, which are worked through behind the recordings of all operations."""
        recording = record(self.stand(operation.acked), operation)
        return [self.pool.submit(self.cells, operation, recording, request)
                for request in filter(operation.aims_at, recording.requests)]

    def cells(self, operation: Operation, recording: Recording, request) -> list[str]:
        return cells_of(self.stand(operation.acked), operation, recording, request, self.faults)

    def problems(self, operation: Operation) -> list[str]:
        return [problem for cells in self.rows[operation.title].result()
                for problem in cells.result()]

    def recordings(self, operations: list[Operation]) -> list[Recording]:
        return list(self.pool.map(lambda one: record(self.stand(one.acked), one), operations))

    def end(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for stand in self.stands:
            stand.stop()
