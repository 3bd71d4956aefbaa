# SPDX-License-Identifier: Apache-2.0
"""Packets through shared memory (UROCE_WIRE=shm): what differs from UDP, and what must not."""

from run_pair import check, transfer


def by_shm(result):
    """The part of this NIC's sent packets that went through shared memory."""
    port = result["nic"]["port"]
    return port["sent_by_shm"] / port["sent_packets"]


def scenario_shm():
    """All operations with verified data; only the first packets go by UDP."""
    for wire in ("shm", "auto"):
        client, server = transfer("mixed", size=100_000, iterations=400, options=["--wire", wire], server_args_extra=["--wire", wire])
        for result in (client, server):
            check(by_shm(result) > 0.9, result["nic"]["port"])
            check(len(result["nic"]["peers_by_shm"]) <= 1, result["nic"])


def scenario_shm_with_a_peer_without():
    """One side only: everything goes by UDP."""
    client, server = transfer("mixed", size=10_000, iterations=20, client_env={"UROCE_WIRE": "shm"})
    for result in (client, server):
        check(result["nic"]["port"]["sent_by_shm"] == 0, result["nic"]["port"])
