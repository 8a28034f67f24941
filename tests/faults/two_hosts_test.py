#!/usr/bin/env python3
"""two_hosts_test.py TWO_HOSTS UNET ENVIRONMENT: Open MPI over TCP between two network namespaces of this machine.

UNET (examples/10) trains a U-Net on two ranks of either host and on each rank alone, to the same losses. Then ENVIRONMENT
(tests/unit/environment.cpp) sends messages round a ring, and the cable between the hosts is pulled out: ranks say for whom
they wait, and HALOGEN_TIMEOUT ends the job. 77, and the reason, where the system allows no namespaces."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

two_hosts, unet, environment = sys.argv[1:4]
ring = [environment, "--no-skip", "--test-case=child goes round a ring for a minute"]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(command, limit):
    """What it says, its exit status, and how many ranks are left at the limit. All that it started ends with it."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        return child.communicate(timeout=limit)[0], child.returncode, 0
    except subprocess.TimeoutExpired:
        left = ranks_left()
        child.terminate()  # two_hosts takes its hosts away, with all that runs there
        return child.communicate(timeout=20)[0], child.returncode, left


def ranks_left():
    """Processes that go round the ring on either host."""
    words = [path.read_bytes().split(b"\0") for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return sum(one[0] == environment.encode() and ring[-1].encode() in one for one in words)


if os.geteuid() != 0:
    skip("network namespaces need root")
for tool in ("ip", "unshare", "mpirun"):
    if shutil.which(tool) is None:
        skip(f"there is no {tool}")
if "Open MPI" not in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout:
    skip("mpirun is not Open MPI's")
probe = subprocess.run([two_hosts, "2", "true"], capture_output=True, text=True, timeout=60)
if probe.returncode != 0:
    skip("two hosts of network namespaces cannot be made here: " + " ".join((probe.stdout + probe.stderr).split())[:300])

faults = []


def check(condition, words, text):
    if not condition:
        faults.append(words)
        print(f"FAULT: {words}\n{text}\n")


text, status, _ = run([two_hosts, "4", unet], 120)
check(status == 0, "a U-Net trains on two hosts to one rank's losses", text)

variables = ["env", "MAKES_ITS_ENVIRONMENT=1", "HALOGEN_WAIT_WARNING=2", "HALOGEN_TIMEOUT=6"]
text, status, left = run([two_hosts, "--cut-after", "5", "4", *variables, *ring], 30)
check("the ring begins" in text and "the cable is out" in text, "the cable is pulled out while messages go", text)
waits = r'(ring on "world", peers? [0-3, ]+|all_reduce on "world" of 4 ranks)'
check(re.search(r"halogen: rank \d has waited 2 s for " + waits + ": a peer", text), "a rank says for whom it waits", text)
check(re.search(r"error on rank \d: " + waits + r": no answer within 6 s \(HALOGEN_TIMEOUT\)", text),
      "HALOGEN_TIMEOUT ends the job with a sentence", text)
# Open MPI's launcher itself may wait on for its other host.
check(status != 0 and left == 0, f"all ranks end; {left} are left", text)
print(f"{len(faults)} faults")
sys.exit(bool(faults))
