#!/usr/bin/env python3
"""faults_test.py [--moments N] [--lag SECONDS] FAULT_RUN FAULT_LIBRARY LAUNCHER: runs that something ends, and what the next one makes of it.

In each case a run must end where an undisturbed one ends, with the same loss to the last digit:
- a fault at every call that changes the folder, in the second save and what goes with it: killed, refused, cut short;
- kill -9 of one rank, or of all, at random moments; SIGTERM between steps and at every call of a save; a rank that stands
  still for a while; a share cut short, changed, foreign, gone; a full disk and a read-only one, where this process may
  mount them. What fails says so in one sentence, and every process is gone within 10 seconds.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GONE = 10  # seconds


class Runs:
    def __init__(self, program, library, launcher):
        self.program, self.library, self.launcher = program, library, launcher

    def start(self, folder, how="sync", ranks=1, pause=0, fault=None, count=False, every=None,
              threads=1):
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if fault or count:
            environment.update(LD_PRELOAD=self.library, HALOGEN_FAULT_FOLDER=str(folder) + "/")
        if fault:
            environment["HALOGEN_FAULT"] = fault
        start = [] if ranks == 1 else [*self.launcher, str(ranks)]
        more = [] if every is None else [str(every)]
        return subprocess.Popen([*start, self.program, str(folder), how, str(pause), *more], env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def end(self, process, seconds=60):
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            err += "\nhangs"
        return process.returncode, out, err

    def run(self, folder, **how):
        return self.end(self.start(folder, **how))


def processes_of(folder):
    """Those of a run: their arguments name its folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if os.fsencode(folder) in words and b"mpirun" not in words[0] and state != "Z":
                found.append(int(entry.name))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--moments", type=int, default=10, help="random moments of kill -9")
    parser.add_argument("--lag", type=float, default=2, help="seconds that a rank stands still")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("launcher", help="mpirun -n")
    arguments = parser.parse_args()
    runs = Runs(arguments.program, arguments.library, arguments.launcher.split())
    root = pathlib.Path(tempfile.mkdtemp(prefix="halogen_faults_"))
    faults = []
    cases = 0

    def fresh():
        nonlocal cases
        cases += 1
        return root / f"run{cases}"

    def must(condition, *what):
        if not condition:
            faults.append(": ".join(str(word) for word in what))

    def goes_on(folder, expected, what, **how):
        status, out, err = runs.run(folder, **how)
        must(status == 0 and out == expected, what, f"the next run ended with {status}", out + err)
        hidden = [path.name for path in folder.iterdir() if path.name.startswith(".step")]
        must(not hidden, what, f"left over: {hidden}")

    status, expected, err = runs.run(fresh())
    must(status == 0 and expected.startswith("done after 8 steps"), "an undisturbed run", expected + err)

    def calls_of(*options):
        _, _, text = runs.run(*options, count=True)
        return int(re.search(r"fault_at: (\d+) calls", text)[1])

    total = calls_of(fresh())
    each = total // 8  # in a save, but for the first and the last
    for fault in ("kill", "fail", "short"):
        for call in range(2 * each + 2, 3 * each + 3):  # from the third save on old ones are removed
            folder = fresh()
            status, out, err = runs.run(folder, fault=f"{fault} {call}")
            what = f"{fault} {call} of {total} calls"
            if fault == "kill":
                must(status == -signal.SIGKILL, what, f"ended with {status}", out + err)
            elif fault == "fail" and status != 0:  # a step is not saved, or an older one is not removed
                lines = [line for line in err.splitlines() if "fault_run:" in line]
                must(status == 1 and len(lines) == 1 and "no space is left on its disk" in lines[0], what, out + err)
            else:
                must(status == 0 and out == expected, what, f"ended with {status}", out + err)
            goes_on(folder, expected, what)

    # SIGTERM in the middle of a save: that one is finished, and the run ends with 0
    for call in range(each + 1, 2 * each + 1):
        folder = fresh()
        status, out, err = runs.run(folder, fault=f"term {call}")
        must(status == 0 and out.startswith("stopped after "), f"SIGTERM at call {call}", status, out + err)
        goes_on(folder, expected, f"SIGTERM at call {call}")

    # a newest checkpoint that is not whole: the one before it is gone on from
    def cut(share):
        share.write_bytes(share.read_bytes()[:-5])

    def flip(share):
        data = bytearray(share.read_bytes())
        data[len(data) // 2] ^= 16
        share.write_bytes(bytes(data))

    for damage, what in ((cut, "a share cut short"), (flip, "a bit of a share"), (pathlib.Path.unlink, "a share gone"),
                         (lambda share: share.write_text("foreign\n"), "a foreign share")):
        folder = fresh()
        process = runs.start(folder, pause=0.2)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        runs.end(process)
        newest = sorted(folder.glob("step-*"))[-1]
        damage(sorted(newest.glob("*.safetensors"))[0])
        status, out, err = runs.run(folder)
        must(status == 0 and out == expected and f"checkpoint '{newest}' is passed over" in err, what, status, out + err)

    # two ranks; their own undisturbed end
    status, of_two, err = runs.run(fresh(), ranks=2, how="async")
    must(status == 0 and of_two.startswith("done after 8 steps"), "two ranks", of_two + err)

    # a disk that is full, and one that cannot be written
    disk = fresh()
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(disk)], capture_output=True, text=True)
    if mount.returncode == 0:
        try:
            folder = disk / "run"
            for options, remounted, words in (("size=32k", "size=10m", "no space is left on its disk"),
                                              ("ro", "rw", "its disk can only be read")):
                subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)
                status, out, err = runs.run(folder, ranks=2)
                lines = {line for line in err.splitlines() if line.startswith("fault_run:")}
                must(status != 0 and len(lines) == 1 and words in lines.pop(), words, status, out + err)
                subprocess.run(["mount", "-o", f"remount,{remounted}", str(disk)], check=True)
            goes_on(folder, of_two, "from the full disk", ranks=2)
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    else:
        print("not tried, since this process may not mount: a full disk, a read-only one")

    choice = random.Random(arguments.seed)
    for moment in range(arguments.moments):
        folder = fresh()
        process = runs.start(folder, how=choice.choice(["sync", "async"]), ranks=2, pause=0.05)
        time.sleep(choice.uniform(0.2, 1.2))
        found = processes_of(folder)
        victims = found if moment % 2 else found[:1]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
        begun = time.time()
        while processes_of(folder) and time.time() - begun < GONE:
            time.sleep(0.05)
        must(not processes_of(folder), f"kill -9, moment {moment}", "not gone in time")
        runs.end(process, 5)  # Open MPI's mpirun may hang when all its processes are gone
        folder.mkdir(exist_ok=True)
        goes_on(folder, of_two, f"kill -9, moment {moment}", ranks=2)

    # a rank that stands still for a while: the others wait for it
    folder = fresh()
    process = runs.start(folder, ranks=2, pause=0.1)
    time.sleep(0.8)
    still = processes_of(folder)[:1]
    for victim in still:
        os.kill(victim, signal.SIGSTOP)
    time.sleep(arguments.lag)
    for victim in still:
        os.kill(victim, signal.SIGCONT)
    status, out, err = runs.end(process, 60 + arguments.lag)
    must(still and status == 0 and out == of_two, "a rank that stands still", status, out + err)

    # a disk that is slow, and a save after the 4th of 8 steps: when it is whole, an asynchronous run has gone on. What is
    # stored is the state at the call all the same.
    for how, most in (("sync", 5), ("async", 8)):
        folder = fresh()
        process = runs.start(folder, how=how, pause=0.04, fault="slow 60", every=4)
        begun = time.time()
        while not (folder / "step-0000000004").exists() and time.time() - begun < 60:
            time.sleep(0.002)
        process.kill()
        _, out, err = runs.end(process)
        batches = err.count("batch ")
        must(most - 1 <= batches <= most, f"a slow disk, {how}", f"{batches} batches before the save was whole", out + err)
        goes_on(folder, expected, f"a slow disk, {how}", how=how)

    # SIGTERM: it saves and ends with 0
    folder = fresh()
    process = runs.start(folder, pause=0.3)
    time.sleep(1.2)
    process.send_signal(signal.SIGTERM)
    status, out, err = runs.end(process)
    must(status == 0 and out.startswith("stopped after "), "SIGTERM", status, out + err)
    goes_on(folder, expected, "SIGTERM, and gone on by three threads", threads=3)  # the same bits

    # on another number of ranks
    folder = fresh()
    process = runs.start(folder, pause=0.3)
    time.sleep(1.2)
    process.send_signal(signal.SIGTERM)
    runs.end(process)
    status, out, err = runs.run(folder, ranks=3)
    loss = [float(text.rsplit(" ", 1)[1]) for text in (out, expected)] if status == 0 else [0, 1]
    must(abs(loss[0] - loss[1]) <= 1e-9 * abs(loss[1]), "from one rank to three", out + err)

    # a file in the way, and, where this process is not root, a folder that may not be written
    folder = fresh()
    folder.write_text("")
    status, out, err = runs.run(folder, ranks=2)
    must(status != 0 and "cannot write checkpoints to" in err, "a file where the folder should be", status, out + err)

    shutil.rmtree(root)
    print("\n".join(faults))
    print(f"{cases} runs, {len(faults)} faults; {each} calls a save")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
