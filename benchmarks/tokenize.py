"""Tokenizing: MB per CPU second beside the libraries; see tokenizer_speed.py, which this starts.

Python looks into this folder first for its own module ``tokenize`` when a benchmark runs; it then
gets that.
"""

import sysconfig
from pathlib import Path

if __name__ == "__main__":
    from tokenizer_speed import main

    main()
else:
    _own = Path(sysconfig.get_path("stdlib")) / "tokenize.py"
    exec(compile(_own.read_bytes(), str(_own), "exec"))
