"""What a bug report needs: `tune-cl --version`."""

from __future__ import annotations

import platform

from trainables.core.machine import usable_cpus, usable_memory
from tune_cl.process import versions

PACKAGES = ["tune-cl", "torch", "transformers", "ray", "mlflow", "optuna", "lightgbm"]


def versions_and_devices() -> str:
    import torch  # here: it takes seconds to import

    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    lines = [f"{name} {number}" for name, number in versions(PACKAGES).items()]
    lines.append(f"Python {platform.python_version()} on {platform.platform()}")
    lines.append(f"{usable_cpus()} CPU cores, {usable_memory() / 2**30:.1f} GiB of memory free")
    lines.append(f"GPU: {', '.join(devices) or 'none'}")
    return "\n".join(lines)
