"""Property tests have no deadline: the first call of a kernel compiles or loads it."""

from hypothesis import settings

settings.register_profile("drystone", deadline=None)
settings.load_profile("drystone")
