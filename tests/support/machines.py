"""Machines of their own on this one: network, process and mount namespaces, with an SSH server in each.

`ray up` needs an address, SSH, rsync and a home on a machine. Each namespace has these, with its own /tmp and
processes; the rest of the file system is shared, as machines share an NFS. Needs root and namespaces; in a Debian
container, `tools` installs the programs for as long as they are needed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NETWORKS = range(77, 97)  # network 77 is bridge tunecl-77 with the addresses 10.213.77.*
PACKAGES = {
    "ip": "iproute2",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "rsync": "rsync",
}
TOOLS = ("unshare", *PACKAGES)
# Shared folders ($SHARED) are bound into the machine's own /tmp and /root before these are mounted over the old ones.
BOOT = """
set -e
mount --make-rprivate /
for one in $SHARED; do
  case $one in /tmp/*) to=$MACHINE/tmp${one#/tmp} ;; /root/*) to=$MACHINE/home${one#/root} ;; *) continue ;; esac
  mkdir -p "$to"
  mount --bind "$one" "$to"
done
mount --rbind "$MACHINE/home" /root
mount --rbind "$MACHINE/tmp" /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs -o size=2g tmpfs /dev/shm
mkdir /run/sshd
exec "$SSHD" -D -f "$MACHINE/sshd_config" -E "$MACHINE/sshd.log"
"""


def missing() -> str | None:
    """Why machines cannot be made on this one, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if lacking := [tool for tool in TOOLS if not shutil.which(tool)]:
        return f"not installed: {', '.join(lacking)}"
    probe = subprocess.run(["unshare", "--net", "--pid", "--mount", "--fork", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"no namespaces here: {probe.stderr.strip()}"


@contextmanager
def tools() -> Iterator[None]:
    """Installs the programs that are missing, and removes them in the end.

    Only as root on Debian, and only where no systemd would start an SSH server: in a container, as CI has it.
    """
    wanted = {PACKAGES[tool] for tool in PACKAGES if not shutil.which(tool)}
    may = os.geteuid() == 0 and shutil.which("apt-get") and not Path("/run/systemd/system").exists()
    if not wanted or not may:
        yield
        return
    before = installed_packages()
    apt("update")
    apt("install", "--no-install-recommends", *sorted(wanted))
    try:
        yield
    finally:
        apt("purge", *sorted(installed_packages() - before))  # with the keys that the server made for this machine


def installed_packages() -> set[str]:
    listed = run("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev} ${Package}\n").splitlines()
    return {line.split()[-1] for line in listed if line.startswith("ii ")}


def apt(*arguments: str) -> None:
    """Runs apt-get. A failure shows as a missing tool: no network is a reason to skip, not to fail."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # a run level that starts nothing
    command = ["apt-get", "-qy", "-o", "DPkg::Lock::Timeout=120", *arguments]
    subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass
class Machine:
    """One machine. `shared`: folders under /tmp or /root that it sees as this machine does. `profile`: of its root."""

    network: int
    number: int
    folder: Path
    key: Path
    shared: list[Path] = field(default_factory=list)
    profile: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"10.213.{self.network}.{self.number}"

    @property
    def name(self) -> str:
        return f"tunecl-{self.network}-{self.number}"

    def plug_in(self) -> None:
        """A network namespace with an address on the bridge."""
        self.remove()  # what a killed run left
        inside, outside = f"{self.name}i", f"{self.name}o"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", self.name)
        run("ip", "link", "set", outside, "master", f"tunecl-{self.network}", "up")
        within = ("ip", "-n", self.name)
        run(*within, "address", "add", f"{self.address}/24", "dev", inside)
        run(*within, "link", "set", inside, "up")
        run(*within, "link", "set", "lo", "up")
        run(*within, "route", "add", "default", "via", f"10.213.{self.network}.1")

    def boot(self) -> None:
        """Starts the SSH server as the first process; returns when it answers."""
        for part in ("tmp", "home"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / "home" / ".profile").write_text(self.profile)
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.key}\nAuthorizedKeysFile {self.key}.pub\nListenAddress {self.address}\n"
            "PermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\n"
        )
        environment = {"PATH": os.environ["PATH"], "MACHINE": str(self.folder), "SSHD": str(shutil.which("sshd"))}
        environment["SHARED"] = " ".join(map(str, [self.folder.parent, *self.shared]))
        isolate = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        with (self.folder / "boot.log").open("wb") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.name, *isolate, "sh", "-c", BOOT], env=environment, stdout=log, stderr=log
            )
        deadline = time.monotonic() + 20
        while not self.answers():
            assert time.monotonic() < deadline and self.process.poll() is None, (self.folder / "boot.log").read_text()
            time.sleep(0.1)

    def answers(self) -> bool:
        try:
            with socket.create_connection((self.address, 22), timeout=1):
                return True
        except OSError:
            return False

    def cut_power(self) -> None:
        """Ends every process of the machine at once; its disk stays."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)  # of `unshare`, whose child, the machine's process 1, dies with it
            self.process.wait()
            self.process = None

    def remove(self) -> None:
        self.cut_power()
        for what in (("link", "delete", f"{self.name}o"), ("netns", "delete", self.name)):
            subprocess.run(["ip", *what], capture_output=True, check=False)


@contextmanager
def bridge() -> Iterator[int]:
    """A network that no other run of the tests uses, nor one that was killed has left behind."""
    taken = {link["ifname"] for link in json.loads(run("ip", "-json", "link"))}
    network = next(number for number in NETWORKS if f"tunecl-{number}" not in taken)
    name = f"tunecl-{network}"
    run("ip", "link", "add", name, "type", "bridge")
    try:
        run("ip", "address", "add", f"10.213.{network}.1/24", "dev", name)
        run("ip", "link", "set", name, "up")
        yield network
    finally:
        run("ip", "link", "delete", name)


@contextmanager
def machines(count: int, folder: Path, profile: str = "") -> Iterator[list[Machine]]:
    """As many machines as asked for, on their own network; this machine's root can log in to them with folder/key."""
    key = folder / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    shared = [Path(sys.base_prefix), Path(sys.prefix)]
    with bridge() as network, ExitStack() as closing:
        made = [Machine(network, 2 + at, folder / f"machine-{at}", key, shared, profile) for at in range(count)]
        for machine in made:
            closing.callback(machine.remove)
            machine.plug_in()
            machine.boot()
        yield made
