"""Processes that hold compiled loops and run them when asked, since XLA's settings hold for a whole process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from machine import environment
from work import Loop, Work

HERE = Path(__file__).parent


class Worker:
    """A process of one of the programs that `serve`."""

    def __init__(self, program: str, variables: Mapping[str, str]) -> None:
        self._program = program
        command = [sys.executable, str(HERE / program)]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(command, env=environment(**variables), stdin=pipe, stdout=pipe, text=True)

    def send(self, **message: Any) -> None:
        """Ask; `receive` waits for the answer."""
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(message) + "\n")
        self._child.stdin.flush()

    def receive(self) -> Any:
        """The answer; RuntimeError where the process ended instead."""
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._program} ended with exit code {self._child.wait()}; its error is above")
        return json.loads(line)

    def ask(self, **message: Any) -> Any:
        """Ask and wait."""
        self.send(**message)
        return self.receive()

    def close(self) -> None:
        """End the process."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def serve(build: Callable[[Work, str, str], Loop], packages: tuple[str, ...]) -> None:
    """Answer until the input ends.

    {build: name, work, method, arrangement} compiles a loop and calls it once -> its gradients and slope;
    {run: name, calls} -> seconds; {forget: true} drops all loops -> nothing.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed goes to the standard error
    loops: dict[str, Loop] = {}
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    for line in sys.stdin:
        answer: dict[str, Any] = {}
        match json.loads(line):
            case {"build": name, "work": work, "method": method, "arrangement": arrangement}:
                loop = loops[name] = build(Work(tuple(work[0]), *work[1:]), method, arrangement)
                loop.run(1)
                answer = {"gradients": loop.gradients, "slope": loop.slope, "versions": versions}
            case {"run": name, "calls": calls}:
                answer = {"seconds": loops[name].run(calls)}
            case {"forget": _}:
                loops.clear()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
