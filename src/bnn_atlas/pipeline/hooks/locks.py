"""Release the locks of a Snakemake process that has ended when the next one starts."""

import json
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MARK = "held by "
"""Start of the line in a lock file that names its holder; the other lines are files."""
ENDED = ("Z", "X")
"""States of a process that has ended and whose parent has not asked for its exit code yet."""


class Holder(NamedTuple):
    """What identifies a process: its number may be used again, but not together with its time of start."""

    host: str
    machine: str
    boot: str
    """Changes when the machine is started again, with which all of its processes end."""
    namespace: str
    """Processes in another container have their own numbers."""
    pid: int
    started: int
    """Clock ticks since the start of the machine."""


def release_stale_locks() -> None:
    """Write into each lock which process holds it, release locks whose process has ended, and leave all others alone.

    Snakemake 9 locks the files of a run in `.snakemake/locks`, without saying who holds the lock: after `kill -9` or a
    power cut the next run ends with a LockException until someone calls `snakemake --unlock`. When a run ends, it also
    removes the locks of all other runs in the folder. Here, a run that ends removes only its own locks. A lock stays if
    its holder is alive, is on another host, or is unknown; `--unlock` removes all locks.
    """
    from snakemake.persistence.file import FilePersistence

    read, write, unlock = FilePersistence._read_locks, FilePersistence._write_locks, FilePersistence.unlock

    def read_locks(persistence: Any) -> Iterator[tuple[str, str]]:
        release(Path(persistence._lockdir))
        yield from read(persistence)

    def write_locks(persistence: Any, kind: str, files: Iterable[str]) -> None:
        names = list(files)
        holder = this_process()
        # First in the file, which may be cut short when the process is killed while it writes.
        write(persistence, kind, [MARK + json.dumps(holder), *names] if names and holder else names)

    def unlock_own(persistence: Any) -> None:
        for file in persistence._lockfile.values():
            Path(file).unlink(missing_ok=True)
        persistence._lockfile.clear()

    FilePersistence._read_locks, FilePersistence._write_locks = read_locks, write_locks
    FilePersistence.unlock, FilePersistence.cleanup_locks = unlock_own, unlock


def release(folder: Path) -> None:
    """Remove the locks in a folder whose holder is gone, with one line for each holder."""
    from snakemake.logging import logger

    released = set()
    for file in sorted(folder.glob("*.lock")):
        holder = holder_of(file)
        if holder and gone(holder):
            file.unlink(missing_ok=True)
            released.add(holder)
    for holder in sorted(released):
        logger.warning(f"Released the lock of a Snakemake that is gone (process {holder.pid} on {holder.host}).")


def holder_of(file: Path) -> Holder | None:
    """The holder that a lock file names; None if it names none."""
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            mark, _, text = next(lines, "").partition(MARK)
        return None if mark or not text else Holder(*json.loads(text))
    except (OSError, ValueError, TypeError):
        return None


def this_process() -> Holder | None:
    """The calling process; None on systems without this information."""
    return process("self")


def process(pid: int | str) -> Holder | None:
    """A running process on this machine; None if it does not exist, or on systems without this information."""
    try:
        number, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").partition(" (")
        fields = rest.rpartition(") ")[2].split()  # after the program's name: state, parent, ...
        if fields[0] in ENDED:
            return None
        machine = Path("/etc/machine-id")
        return Holder(
            platform.node(),
            machine.read_text(encoding="ascii").strip() if machine.is_file() else "",
            Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
            Path("/proc/self/ns/pid").readlink().name,
            int(number),
            int(fields[19]),
        )
    except (OSError, ValueError, IndexError):
        return None


def gone(holder: Holder) -> bool:
    """Whether a process has certainly ended: it ran on this host, and no longer exists."""
    here = this_process()
    if here is None or (holder.host, holder.machine) != (here.host, here.machine):
        return False
    if holder.boot != here.boot:
        return True
    return holder.namespace == here.namespace and process(holder.pid) != holder
