"""`python -m inferometer`: the command `inferometer`.

`python -m` puts the working directory first on the search path, from which no module may be imported.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from inferometer.scripts import inferometer

    sys.exit(inferometer())
