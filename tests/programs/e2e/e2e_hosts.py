# SPDX-License-Identifier: Apache-2.0
"""rdma_server and rdma_client on two hosts: network namespaces with a pair of virtual Ethernet cards in between."""

import contextlib
import pathlib
import shutil
import subprocess
import sys

import run_pair
from e2e_cm import need_librdmacm
from run_pair import Client, Server, Tool, check, need_namespaces

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "clients"))
# pylint: disable=wrong-import-position
from hosts import HERE, THERE, SecondHost

OPTIONS = ["--iters", "20", "--verify", "--op", "mixed"]


def gid_of(tool):
    return tool.result()["gid"]


def transfer(server, host, address, launcher=(), options=(), env=None):
    """A client that must succeed; its NIC must have had `address`."""
    client = Client(server, [*OPTIONS, *options], host=host, launcher=launcher, env=env)
    check(client.finish() == 0, f"to {host}", client, server)
    check(gid_of(client) == f"::ffff:{address}", f"not {address}", client, server)


def scenario_hosts_without_settings():
    """The NIC has the address that TCP uses; a client on the server's host finds both on loopback addresses, as ever."""
    need_namespaces()
    with SecondHost(1500) as second:
        server = Server(["--loop"], extra=())
        try:
            transfer(server, HERE, THERE, second.there([]))
            transfer(server, "127.0.0.1", "127.0.0.1")
            transfer(server, HERE, "127.0.0.1")
            transfer(server, HERE, THERE, second.there([]))
            server.signal(15)
            server.finish()
            gids = [line.split()[3] for line in server.stdout.splitlines() if line.startswith("  device")]
            here, loopback = f"::ffff:{HERE}", "::ffff:127.0.0.2"
            check(gids == [here, loopback, loopback, here], gids, server)
        finally:
            server.kill()


def scenario_hosts_by_cm():
    """With --cm the server says where it is, and the client follows its routes."""
    need_librdmacm()
    need_namespaces()
    with SecondHost(9000) as second:
        server = Server(["--cm", "--addr", "eth0"])
        try:
            transfer(server, HERE, THERE, second.there([]), ["--cm", "--mtu", "4096"])
            check(server.finish() == 0 and gid_of(server) == f"::ffff:{HERE}", "server", server)
        finally:
            server.kill()


def scenario_hosts_on_loopback_are_told():
    """Before they try: which side has to have another address, and which."""
    need_namespaces()
    with SecondHost(1500) as second:
        for server_address, client_address, server_says, client_says in (
                ("lo", THERE, f"our NIC has a loopback address, and the client is on another host, {THERE}: pass --addr {HERE}",
                 f"the NIC of the server has a loopback address, which we can't reach from {THERE}: pass --addr {HERE} there"),
                ("eth0", "127.0.0.1", f"the NIC of the client has a loopback address, which we can't reach from {HERE}: pass "
                 f"--addr {THERE} there",
                 f"our NIC has a loopback address, and the server is on another host, {HERE}: pass --addr {THERE}")):
            server = Server(["--addr", server_address])
            try:
                client = Client(server, ["--addr", client_address], host=HERE, launcher=second.there([]))
                check((client.finish(), server.finish()) == (2, 2), "both refuse", client, server)
                check(client.result()["error"] == client_says, client_says, client)
                check(server.result()["error"] == server_says, server_says, server)
            finally:
                server.kill()


@contextlib.contextmanager
def dropped(rule):
    """This host drops what `rule` matches, in its chain "input" or "output"."""
    chain, condition = rule
    for command in ("add table ip e2e", "add chain ip e2e c { type filter hook %s priority 0; }" % chain,
                    "add rule ip e2e c udp dport 4791 %s drop" % condition):
        subprocess.run(["nft", *command.split()], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "ip", "e2e"], check=True)


@contextlib.contextmanager
def translated(second, address):
    """All packets of the second host come from `address`."""
    run = second.there([])
    for command in (f"ip addr add {address}/24 dev eth0", "nft add table ip e2e",
                    "nft add chain ip e2e c { type nat hook postrouting priority 100; }",
                    f"nft add rule ip e2e c ip saddr {THERE} snat to {address}"):
        subprocess.run([*run, *command.split()], check=True)
    try:
        yield
    finally:
        subprocess.run([*run, "nft", "delete", "table", "ip", "e2e"], check=True)


@contextlib.contextmanager
def other_ports(second):
    """The RoCE packets of the second host come from its address, and from other ports than it has sent them from."""
    run = second.there([])
    for command in ("nft add table ip e2e", "nft add chain ip e2e c { type nat hook postrouting priority 100; }",
                    "nft add rule ip e2e c udp dport 4791 masquerade random"):
        subprocess.run([*run, *command.split()], check=True)
    try:
        yield
    finally:
        subprocess.run([*run, "nft", "delete", "table", "ip", "e2e"], check=True)


def examine(second, status, words=(), unsaid=(), faults=""):
    """What `uroce doctor` prints here and there about the two directions, which must be the same: {"FROM -> TO": "ok ..."}.
    `faults`: on the way from there."""
    listening = Tool("uroce", ["doctor", "--listen", "--port", "0"])
    peer = None
    try:
        port = listening.wait_for_line(r"waits on TCP port (\d+)").group(1)
        peer = Tool("uroce", ["doctor", "--peer", HERE, "--port", port], launcher=second.there([]),
                    env={"UROCE_FAULTS": faults} if faults else None)
        check((peer.finish(), listening.finish()) == (status, status), "status", peer, listening)
        both = []
        for tool in (listening, peer):
            check(all(word in tool.stdout for word in words), words, tool, tool.stdout)
            check(not any(word in tool.stdout for word in unsaid), unsaid, tool, tool.stdout)
            lines = [line for line in tool.stdout.splitlines() if " -> 10." in line]
            both.append({" ".join(line.split(":")[0].split()[1:]): line.split()[0] + line.split(":")[1] for line in lines})
        check(both[0] == both[1] and len(both[0]) == 2, both, listening, peer)
        return both[0][f"{THERE} -> {HERE}"], both[0][f"{HERE} -> {THERE}"]
    finally:
        listening.kill()
        if peer:
            peer.kill()


def scenario_hosts_doctor():
    """uroce doctor names the direction that a firewall blocks, on both sides."""
    if shutil.which("nft") is None:
        raise run_pair.Skip("nft is not installed")
    need_namespaces()
    good, dead = "ok all 20 packets arrived", "BAD none of 20 packets arrived"
    with SecondHost(9000) as second:
        check(examine(second, 0) == (good, good), "nothing is blocked")
        with dropped(("input", "")):
            check(examine(second, 1) == (dead, good), "nothing comes in")
        with dropped(("output", "")):
            check(examine(second, 1) == (good, dead), "nothing gets out")
        with dropped(("input", "meta length > 2000")):
            way = examine(second, 1)
            check(way == ("BAD packets of 64 bytes arrive, those of 4096 do not", good), way)
        translation = f"{THERE} is translated on the way: its peer sees 10.99.0.3"
        with translated(second, "10.99.0.3"), dropped(("input", "")):
            examine(second, 1, [translation, "do not pass an address translation (NAT)"], ["firewall"])
        with other_ports(second):
            way = examine(second, 1, ["an address translation (NAT) that chooses other source ports"], ["firewall"])
            check(way == ("BAD none of 20 packets arrived as it was sent, 20 came with a wrong ICRC", good), way)


def scenario_hosts_doctor_of_a_poor_network():
    """What uroce doctor says when packets come twice, or are lost, or both."""
    need_namespaces()
    good, too_large = "ok all 20 packets arrived", "BAD packets of 64 bytes arrive, those of 4096 do not"
    with SecondHost(9000) as second:
        for faults, status, told in (("dup=op:ud_send", 0, good),
                                     ("dup=op:ud_send#5,drop=op:ud_send#7", 0, "note 19 of 20 packets arrived"),
                                     ("drop=size:1000..5000", 1, too_large),
                                     ("drop=size:1000..5000,drop=size:0..999#1", 1, too_large),
                                     ("drop=size:1000..5000#1..9", 0, "note 11 of 20 packets arrived")):
            way = examine(second, status, faults=faults)
            check(way == (told, good), faults, way)


def scenario_hosts_doctor_by_link_local():
    """NICs have no such addresses: uroce doctor says so, and does not blame the network."""
    need_namespaces()
    with SecondHost(1500) as second:
        for address, run in (("fe80::a", []), ("fe80::b", second.there([]))):
            subprocess.run([*run, "ip", "addr", "add", f"{address}/64", "dev", "eth0", "nodad"], check=True)
        listening = Tool("uroce", ["doctor", "--listen", "--port", "0"])
        try:
            port = listening.wait_for_line(r"waits on TCP port (\d+)").group(1)
            peer = Tool("uroce", ["doctor", "--peer", "fe80::a%eth0", "--port", port], launcher=second.there([]))
            check((peer.finish(), listening.finish()) == (2, 2), "status", peer, listening, peer.stdout)
            for tool in (peer, listening):
                check("connect by an IPv4 or a global IPv6 address (NICs have no link-local ones)" in tool.stderr,
                      tool.stderr)
                check("firewall" not in tool.stdout, tool.stdout)
        finally:
            listening.kill()


def scenario_hosts_interface_down():
    """An address of an interface that is down is not said to be reached by other hosts."""
    need_namespaces()
    with SecondHost(1500):
        for command in ("link add ethb type veth peer name ethc", "addr add 10.98.0.1/24 dev ethb"):
            subprocess.run(["ip", *command.split()], check=True)
        try:
            for address, status, reached in (("ethb", 1, False), ("eth0", 0, True)):
                doctor = Tool("uroce", ["doctor"], env={"UROCE_ADDR": address})
                check(doctor.finish() == status, "status", doctor, doctor.stdout)
                check(("other hosts: they can reach" in doctor.stdout) == reached, doctor.stdout)
                check(reached or "10.98.0.1 is an address of ethb, which is down" in doctor.stdout, doctor.stdout)
            subprocess.run(["ip", "link", "set", "ethb", "up"], check=True)  # Its other end is still down.
            doctor = Tool("uroce", ["doctor"], env={"UROCE_ADDR": "ethb"})
            check(doctor.finish() == 1 and "ethb is down or has no carrier" in doctor.stdout, doctor.stdout)
        finally:
            subprocess.run(["ip", "link", "del", "ethb"], check=True)
