"""A running process is told from outside what goes wrong."""

import os
import time

from e2e_record import uroce
from run_pair import TIMEOUT, Pair, check


def ctl(process, *command):
    status, told, error = uroce("ctl", process, *command)
    check(status == 0, (command, status, error))
    return told


def counter(process, name):
    return sum(int(line.split()[2]) for line in ctl(process, "counters", name).splitlines())


def wait_until(pair, happened, what):
    end = time.monotonic() + TIMEOUT
    while not happened():
        check(time.monotonic() < end, f"never: {what}", pair.client, pair.server)
        check(pair.client.process.poll() is None, f"ended before: {what}", pair.client, pair.server)


def scenario_control():
    """The next ACK of a server is lost, then nothing passes for a while; its client goes on. Then its QP breaks."""
    with Pair(["--op", "write", "--size", 100, "--iters", 100000000, "--num-qp", 1, "--depth", 1, "--timeout", 12],
              env={"UROCE_CONTROL": "on"}) as pair:
        client, server = pair.client.process.pid, pair.server.process.pid

        def is_listed():
            _, listed, _ = uroce("ctl")
            return f"{client} rdma_client\n" in listed and f"{server} rdma_server\n" in listed

        def goes_on():
            before = counter(client, "sent_pkts")
            wait_until(pair, lambda: counter(client, "sent_pkts") > before + 100, "packets")

        wait_until(pair, is_listed, "both take commands")
        wait_until(pair, lambda: counter(client, "sent_pkts") > 100, "packets")
        before = counter(client, "local_ack_timeout_err")  # A busy machine may have had some.
        check(ctl(server, "lose", "op:ack") == "", "the answer")
        wait_until(pair, lambda: counter(server, "injected_drop") == 1, "the loss")
        wait_until(pair, lambda: counter(client, "local_ack_timeout_err") > before, "the timeout")
        goes_on()
        check(counter(server, "injected_drop") == 1, "one packet was asked for")

        ctl(client, "blackout", "20ms")
        wait_until(pair, lambda: counter(client, "injected_blackout") > 0, "the blackout")
        goes_on()

        check(ctl("all", "list").count(" uroce0 127.0.0.") == 2, "all of them")
        status, _, error = uroce("ctl", server, "nonsense")
        check(status == 1 and "there is no command nonsense" in error, error)
        status, _, error = uroce("ctl", os.getpid(), "list")
        check(status == 1 and "takes no commands" in error, error)
        ctl(server, "break", "1st")
        check(pair.finish() == (1, 1), "a QP of theirs broke", pair.client, pair.server)
    _, listed, _ = uroce("ctl")
    check(f"{server} " not in listed, listed)
