"""What a script that makes reference files is asked for: SCRIPT [--to FOLDER] [NAME...], all files unless some are named."""
import argparse
import pathlib


def chosen(files, script, about):
    """(folder, the names to make). files: the names that the script can make; a call for several makes all of them."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(script).parent, metavar="FOLDER",
                        help="where the files go, by default beside the script")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(files))
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in files]
    if unknown:
        parser.error(f"there is no file '{unknown[0]}', but there are: {', '.join(files)}")
    if not arguments.to.is_dir():
        parser.error(f"'{arguments.to}' is no folder")
    return arguments.to, arguments.names or list(files)
