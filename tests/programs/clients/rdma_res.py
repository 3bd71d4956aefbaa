# SPDX-License-Identifier: Apache-2.0
"""Makes QPs and asks `rdma res show qp`, which is another process, what it sees of them: in words and as JSON. Prints "ok"."""

import json
import os
import subprocess

from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_RC, IBV_QPT_UD
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr


def rdma(*arguments):
    return subprocess.run(["rdma", *arguments], capture_output=True, text=True, check=True).stdout


context = Context(name="uroce0")
pd = PD(context)
cq = CQ(context, 16)
qps = [QP(pd, QPInitAttr(qp_type=kind, scq=cq, rcq=cq, cap=QPCap())) for kind in (IBV_QPT_RC, IBV_QPT_UD)]
shown = {qp["lqpn"]: qp for qp in json.loads(rdma("-j", "res", "show", "qp"))}
for qp, kind in zip(qps, ("RC", "UD")):
    entry = shown[qp.qp_num]
    assert (entry["ifname"], entry["type"], entry["state"], entry["pid"]) == ("uroce0", kind, "RESET", os.getpid()), entry
    assert f"lqpn {qp.qp_num} " in rdma("res", "show", "qp")
assert "uroce0: qp 2" in rdma("res", "show")
for qp in qps:
    qp.close()
assert rdma("res", "show", "qp") == ""
print("ok")
