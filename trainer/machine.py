"""What a machine does in a second and holds: what the planner reckons with, and the MFU rule.

Nothing here imports torch before a machine is measured.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


class MachineError(ValueError):
    """A machine profile that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineProfile:
    """Rates in a second, on one device, in 16 bit; all more than 0."""

    name: str
    gemm: float
    """FLOP of matrix products, as reached."""
    attention_forward: float
    """FLOP of causal attention, forward, masked pairs not counted."""
    attention_backward: float
    """FLOP of its backward pass, which is 2.5 times as many as forward."""
    offload: float
    """Bytes from device to host."""
    fetch: float
    """Bytes from host to device."""
    device_bytes: int
    """Device memory that may be used."""
    host_bytes: int
    """Host memory that may be used for what leaves the device."""
    peak: float
    """FLOP by the data sheet: what utilization refers to."""


_HOPPER = {
    "gemm": 650e12,
    "attention_forward": 520e12,
    "attention_backward": 500e12,
    "offload": 50e9,
    "fetch": 50e9,
    "host_bytes": 112_000_000_000,
    "peak": 989e12,
}

PROFILES = {
    "h100": MachineProfile(name="h100", device_bytes=80_000_000_000, **_HOPPER),  # type: ignore[arg-type]
    "h200": MachineProfile(name="h200", device_bytes=147_000_000_000, **_HOPPER),  # type: ignore[arg-type]
}
"""Assumed, not measured: products and cuDNN attention with heads of 128 as published for Hopper,
PCIe of the fifth generation, 112 GB of host memory beside one device."""


def find_profile(name: str) -> MachineProfile:
    """Return a profile by name, or from a JSON file as :func:`save_profile` writes it.

    Raises:
        MachineError: no such profile or file, or a value in it that cannot be.
    """
    if name in PROFILES:
        return PROFILES[name]
    names = ", ".join(PROFILES)
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MachineError(
            f"machine {name!r}: no such profile or file; use one of {names}, or a JSON file"
        ) from None
    except (OSError, ValueError) as error:
        raise MachineError(f"{name}: cannot be read as a profile ({error}); mend it") from error
    return _checked(found, name)


def _checked(found: Any, where: str) -> MachineProfile:
    known = {f.name for f in fields(MachineProfile)}
    if not isinstance(found, dict) or set(found) != known:
        keys = found.keys() if isinstance(found, dict) else []
        raise MachineError(
            f"{where}: a profile has the keys {', '.join(sorted(known))}; "
            f"missing: {', '.join(sorted(known - set(keys))) or 'none'}, "
            f"unknown: {', '.join(sorted(set(keys) - known)) or 'none'}"
        )
    for key, value in found.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key != "name" and not (is_number and 0 < value < float("inf")):
            raise MachineError(f"{where}: {key} = {value!r}; give a number above 0")
    sizes = {key: int(found[key]) for key in ("device_bytes", "host_bytes")}
    return MachineProfile(**{**found, "name": str(found["name"]), **sizes})


def save_profile(profile: MachineProfile, path: str | Path) -> None:
    """Write a profile as JSON."""
    Path(path).write_text(json.dumps(asdict(profile), indent=2) + "\n", encoding="utf-8")


def utilization(flop: float, seconds: float, profile: MachineProfile, devices: int = 1) -> float:
    """Return model FLOP utilization: the one rule for it.

    Args:
        flop: of the model, forward and backward, as :func:`packing.cost.row_cost` counts them
            (causal pairs once, nothing for what is made again).
        seconds: that they took.
        profile: of each device.
        devices: devices that worked on them.
    """
    return flop / (seconds * devices * profile.peak)
