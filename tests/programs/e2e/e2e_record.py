"""Flight recorders: what `uroce explain DIR` says after something broke, and how one looks into running programs."""

import os
import subprocess
import tempfile

import run_pair
from run_pair import Pair, Server, check


def uroce(*arguments):
    ran = subprocess.run([str(run_pair.BIN / "uroce"), *map(str, arguments)], capture_output=True, text=True, timeout=30,
                         check=False)
    return ran.returncode, ran.stdout, ran.stderr


def scenario_record():
    """The peer answers nothing: the first sentence says so; a killed process leaves what it remembers; on demand."""
    with tempfile.TemporaryDirectory() as directory:
        env = {"UROCE_RECORD": directory}
        with Pair(["--op", "write", "--size", 3000, "--iters", 20, "--num-qp", 1, "--timeout", 8],
                  ["--faults", "drop=op:ack"], client_env=env) as pair:
            status = pair.finish()
            check(status == (1, 1), status, pair.client, pair.server)
        status, told, _ = uroce("explain", directory)
        check(status == 0, told)
        first = told.splitlines()[0]
        check(first.startswith("RETRY_EXC_ERR on QP 0x"), told)
        check(": 8 transmissions of PSN 0x" in first and "no answer: the peer 127.0.0." in first, told)
        check("because of a timeout" in told and "probably because" not in told, told)
        with tempfile.TemporaryDirectory() as other:
            server = Server(["--num-qp", 1], env={"UROCE_RECORD": other})
            try:
                status, told, error = uroce("record", server.process.pid, "--dir", os.path.join(other, "now"))
                check(status == 0 and "events and" in told, told, error)
                check(len(os.listdir(os.path.join(other, "now"))) == 2, os.listdir(other))
            finally:
                server.kill()
            status, told, _ = uroce("explain", other)
            check(status == 0 and told.startswith("Recorded: the process ended without closing its NIC"), told)
            check(not [name for name in os.listdir(other) if name.endswith(".ring")], os.listdir(other))
        status, _, error = uroce("record", os.getpid())
        check(status == 1 and "has no NIC" in error, error)
