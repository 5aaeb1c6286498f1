"""Progress in terminals and notebooks: one line that is overwritten."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any


class Progress:
    """Shows ELBO, components, evaluations and time while a fit runs."""

    def __init__(self, max_evals: int | None, notebook: bool):
        self.max_evals = max_evals
        self.display: Any = None
        self.notebook = notebook
        self.shown = False
        #: Says how many workers there are; shown at the end of the line.
        self.workers: Callable[[], str] | None = None
        self.line = ""
        self.when = 0.0
        # A fit with workers shows progress from two threads.
        self.lock = threading.Lock()

    @classmethod
    def wanted(cls, progress: bool | None, max_evals: int | None) -> Any:
        """A progress line, or nothing: by default it is shown in terminals and notebooks."""
        notebook = _in_notebook()
        if progress is None:
            progress = notebook or bool(getattr(sys.stderr, "isatty", lambda: False)())
        return cls(max_evals, notebook) if progress else nullcontext(None)

    def __enter__(self) -> Progress:
        return self

    def __call__(
        self,
        iteration: int,
        evals: int,
        seconds: float,
        elbo: float,
        se: float,
        components: int,
        chains: tuple[int, float] | None = None,
    ) -> None:
        if chains is not None:
            kept, r_hat = chains
            found = f"{kept} iterations kept" + ("" if math.isnan(r_hat) else f"  R-hat {r_hat:.3f}") if kept else "warming up"
            self._show(f"natmix: chains  {found}  {evals} evaluations  {seconds:.1f} s")
            return
        of = f"/{self.max_evals}" if self.max_evals else ""
        plural = "" if components == 1 else "s"
        found = f"ELBO {elbo:.3f} ± {se:.3f}  {components} component{plural}" if components else "looking for modes"
        self._show(f"natmix: {found}  {evals}{of} evaluations  {iteration} iterations  {seconds:.1f} s")

    def tell(self) -> None:
        """Shows the line again, at most twice per second, with what has become of the workers: a step may take minutes."""
        if time.monotonic() - self.when > 0.5:
            self._show(self.line or "natmix: first evaluations")

    def _show(self, line: str) -> None:
        with self.lock:
            self.line, self.when = line, time.monotonic()
            self._write(line if self.workers is None else f"{line}  {self.workers()}")

    def _write(self, line: str) -> None:
        if self.notebook:
            from IPython.display import display

            data = {"text/plain": line}
            if self.display is None:
                self.display = display(data, raw=True, display_id=True)
            else:
                self.display.update(data, raw=True)
        else:
            sys.stderr.write("\r\x1b[2K" + line)
            sys.stderr.flush()
        self.shown = True

    def __exit__(self, *exc: object) -> None:
        if not self.shown:
            return
        if self.notebook:
            self.display.update({"text/plain": ""}, raw=True)
        else:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _in_notebook() -> bool:
    """Whether output goes to a notebook, without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
