"""rdma_server and rdma_client on two hosts: network namespaces with a pair of virtual Ethernet cards in between."""

import os
import pathlib
import subprocess
import sys

import run_pair
from e2e_cm import need_librdmacm
from run_pair import Client, Server, check

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "clients"))
from hosts import HERE, THERE, SecondHost  # pylint: disable=wrong-import-position

INSIDE = "E2E_OWN_NAMESPACE"
OPTIONS = ["--iters", "20", "--verify", "--op", "mixed"]


def enter_namespace():
    """Runs this scenario again where it may make interfaces."""
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True, check=False).returncode != 0:
        raise run_pair.Skip("no permission to make a network namespace")
    os.environ[INSIDE] = "yes"
    os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.argv])


def gid_of(tool):
    return tool.result()["gid"]


def transfer(server, host, address, launcher=(), options=(), env=None):
    """A client that must succeed; its NIC must have had `address`."""
    client = Client(server, [*OPTIONS, *options], host=host, launcher=launcher, env=env)
    check(client.finish() == 0, f"to {host}", client, server)
    check(gid_of(client) == f"::ffff:{address}", f"not {address}", client, server)


def scenario_hosts_without_settings():
    """The NIC has the address that TCP uses; a client on the server's host finds both on loopback addresses, as ever."""
    enter_namespace()
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
    enter_namespace()
    with SecondHost(9000) as second:
        server = Server(["--cm", "--addr", "eth0"])
        try:
            transfer(server, HERE, THERE, second.there([]), ["--cm", "--mtu", "4096"])
            check(server.finish() == 0 and gid_of(server) == f"::ffff:{HERE}", "server", server)
        finally:
            server.kill()


def scenario_hosts_on_loopback_are_told():
    """Before they try: which side has to have another address, and which."""
    enter_namespace()
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
