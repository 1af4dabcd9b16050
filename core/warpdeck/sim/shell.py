"""A simulated shell for the demo: it supports typing, detaching and attaching. Pure."""

from __future__ import annotations

MAX_SCROLLBACK_BYTES = 64 * 1024
"""Output that is shown again on attaching."""
MAX_LINE = 1024
"""Longest input line. Further characters are dropped."""
FILES = "checkpoints  configs  data  train.py  train.sh"
HELP = "a simulated shell: ls, nvidia-smi, hostname, whoami, help, exit (Enter ~d detaches)"


class SimShell:
    """One terminal. It receives keys and returns output. `ended` is set after `exit`."""

    def __init__(self, *, user: str, host: str, gpus: int) -> None:
        self._user, self._host, self._gpus = user, host, gpus
        self._line = ""
        self.ended = False
        self.scrollback = (HELP + "\r\n" + self._prompt()).encode()

    def feed(self, keys: bytes) -> bytes:
        """Process keys and return the resulting output."""
        shown = "".join(self._key(char) for char in keys.decode("utf-8", "replace") if not self.ended)
        self.scrollback = (self.scrollback + shown.encode())[-MAX_SCROLLBACK_BYTES:]
        return shown.encode()

    def _key(self, char: str) -> str:
        if char in "\r\n":
            return self._enter()
        if char == "\x04" and not self._line:
            self.ended = True
            return "exit\r\n"
        if char == "\x03":
            self._line = ""
            return "^C\r\n" + self._prompt()
        if char in "\x7f\b":
            gone, self._line = self._line[-1:], self._line[:-1]
            return "\b \b" if gone else ""
        if not char.isprintable() or len(self._line) >= MAX_LINE:
            return ""
        self._line += char
        return char

    def _enter(self) -> str:
        command, self._line = self._line.strip(), ""
        output = self._run(command) if command else ""
        after = "" if self.ended else self._prompt()
        return "\r\n" + output.replace("\n", "\r\n") + ("\r\n" if output else "") + after

    def _run(self, command: str) -> str:
        word = command.split()[0]
        if word in ("exit", "logout"):
            self.ended = True
            return ""
        answers = {
            "ls": FILES,
            "hostname": self._host,
            "whoami": self._user,
            "help": HELP,
            "nvidia-smi": "\n".join(f"GPU {index}  NVIDIA H100 80GB HBM3   0%" for index in range(self._gpus))
            or "no GPU was requested",
        }
        return answers.get(word, f"bash: {word}: command not found (this shell is simulated; try help)")

    def _prompt(self) -> str:
        return f"{self._user}@{self._host}:~$ "
