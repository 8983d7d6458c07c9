"""The environment variables that we set, all at the start of a call.

Before glibc 2.41, a process may end with SIGSEGV if one thread writes a variable while another one reads any, as
Arrow, OpenSSL and name lookups do. So no variable is written while a thread of ours runs. Ray writes some, too, as it
starts: threads of ours begin after that.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trainables.core.machine import CUBLAS
from tune_cl.process import environment

RAY = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # no CSV, JSON and TensorBoard files: the journal has everything
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # so that Ctrl-C reaches us
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # first and last snapshot only: Ray's grow with the search and are never read
    "TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE": "1",  # no copy of a result beside each checkpoint
    "TUNE_MAX_PENDING_TRIALS_PG": "1000000",  # our own limit of trials at a time holds, not Ray's guess
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",  # no traceback of a trial that nobody waits for
}
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}  # threads that wait leave their core to other trials
SKLEARN = {"KMP_DUPLICATE_LIB_OK": "True", "KMP_INIT_AT_FORK": "FALSE"}  # it writes them as it is imported, for a chart
MLFLOW = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # MLflow's blind retries create runs twice; the writer looks first
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # with each run that ends, and with the password if it has one
}
AUTH_MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"


@contextmanager
def own_environment(local_ray: bool = False) -> Iterator[None]:
    """Sets our variables, but none that the user has set, and removes them at the end. Within another one, nothing.

    `local_ray`: whether the work may start a Ray here. Others can reach it over the network, so that it asks for a
    token, whatever mode the user has set: the user's, or one that only the environment of its processes holds. A Ray
    that the user has started in this process keeps the token that it has: another one would end the process.
    """
    local_ray = local_ray and not ("ray" in sys.modules and sys.modules["ray"].is_initialized())
    values = RAY | MLFLOW | WAITING | SKLEARN | CUBLAS
    if local_ray and TOKEN_PATH not in os.environ:
        values[TOKEN] = secrets.token_hex(32)
    values = {name: value for name, value in values.items() if name not in os.environ}
    if local_ray and os.environ.get(AUTH_MODE) != "token":
        values[AUTH_MODE] = "token"
    try:
        with environment(values):
            yield
    finally:
        if local_ray and "tune_cl.ray.workarounds" in sys.modules:  # Ray knows ours; the user may start one now
            from tune_cl.ray.workarounds import reread_token

            reread_token()
