"""fortran_host_test.py FORTRAN_HOST SAME_IN_CPP LAUNCHER: the Fortran program on 1, 3 and 4 ranks ends with the bits of the
C++ program."""
import os
import subprocess
import sys
import tempfile

program, twin, launcher = sys.argv[1], sys.argv[2], sys.argv[3].split()
with tempfile.TemporaryDirectory() as folder:
    files = []
    for ranks in (1, 3, 4):
        files.append(os.path.join(folder, f"state_{ranks}.bin"))
        subprocess.run([*launcher, str(ranks), program, files[-1]], check=True)
    subprocess.run([twin, *files], check=True)
