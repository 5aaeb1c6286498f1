"""Wall time of a run, and how busy other programs kept the machine meanwhile: on a busy one the time means little."""

import os
import time
from pathlib import Path

# Of the processor time of all cores.
MOST_BY_OTHERS = 0.1


class Stopwatch:
    """Measures from its creation on."""

    def __init__(self):
        self.began = self._now()

    def read(self):
        """`seconds`, and `others`: the share of the processor time that others used, or None where the system does not tell."""
        wall, own, total, idle = (now - then for now, then in zip(self._now(), self.began))
        others = round(max(0.0, (total - idle - own) / total), 3) if total > 0 else None
        return {"seconds": round(wall, 1), "others": others}

    @staticmethod
    def _now():
        total, idle = 0.0, 0.0
        if Path("/proc/stat").exists():
            # user, nice, system, idle, iowait, irq, softirq, steal
            ticks = [int(number) for number in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
            total, idle = (value / os.sysconf("SC_CLK_TCK") for value in (sum(ticks), ticks[3] + ticks[4]))
        return time.perf_counter(), time.process_time(), total, idle


def undisturbed(figures):
    """Whether the machine is known to have done little else."""
    return figures.get("others") is not None and figures["others"] <= MOST_BY_OTHERS
