"""unpack.py FOLDER NAME...: takes the named files, wherever they lie, out of the wheels in FOLDER, into FOLDER."""
import pathlib
import shutil
import sys
import zipfile

folder, wanted = pathlib.Path(sys.argv[1]), set(sys.argv[2:])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = pathlib.PurePosixPath(member).name
            if name in wanted:
                with archive.open(member) as source, open(folder / name, "wb") as target:
                    shutil.copyfileobj(source, target)
                wanted.remove(name)
if wanted:
    sys.exit(f"not in the wheels: {', '.join(sorted(wanted))}")
