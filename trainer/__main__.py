"""``python -m trainer CONFIG.toml``."""

import sys

from trainer.cli import main

sys.exit(main())
