"""How far a block of chains is, for a log file and for a person at a terminal."""

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger(__name__)


class ProgressReport:
    """Rate and time left: a line in the log at most every `interval` seconds, and a bar on a terminal."""

    def __init__(
        self, total: int, done: int, chains: int, gradients_per_step: float | None, interval: float = 10.0
    ) -> None:
        self._total, self._done = total, done
        self._gradients = chains * (gradients_per_step or 0)
        self._interval = interval
        self._begun = self._logged = time.monotonic()
        self._first = done
        self._bar = tqdm(total=total, initial=done, unit="step", disable=not sys.stderr.isatty(), leave=False)

    def advance(self, phase: str, steps: int) -> None:
        """Count `steps` more steps (of every chain) in the named phase."""
        self._done += steps
        self._bar.set_description(phase, refresh=False)
        self._bar.update(steps)
        now = time.monotonic()
        if now - self._logged >= self._interval or self._done == self._total:
            self._logged = now
            rate = (self._done - self._first) / max(now - self._begun, 1e-9)
            log.info(
                "%s: step %s of %s, %.4g steps/s%s, %s left",
                phase,
                f"{self._done:,}",
                f"{self._total:,}",
                rate,
                f" ({rate * self._gradients:.4g} chain-gradients/s)" if self._gradients else "",
                tqdm.format_interval((self._total - self._done) / max(rate, 1e-9)),
            )

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
