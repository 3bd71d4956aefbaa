# SPDX-License-Identifier: Apache-2.0
"""What the programs print when all went well. Each function here makes a judge: judge(client's output, server's output)
raises AssertionError with what is wrong.
"""

import json
import re


def io_demo(operations):
    """UCX's: the client reports now and then how much it has done since; nobody has found wrong contents."""
    def judge(client, server):
        assert "Client exit with status 'OK'" in client, "the client has not ended well"
        done = sum(map(int, re.findall(r"total min:\d+ max:\d+ total:(\d+)", client)))
        assert done == operations, f"{done} operations"
        for output in (client, server):
            assert not re.search("corruption|mismatch|ERROR", output), "somebody complains"
    return judge


def mckey(receivers):
    """All receivers have got all messages."""
    def judge(client, server):
        for who, output, times in (("the sender", client, 1), ("a receiver", server, receivers)):
            for text in ("data transfers complete", "return status 0"):
                assert output.count(text) == times, f"{who} has not said '{text}'"
    return judge


def fio(jobs, blocks):
    """Each job of the client has sent all blocks; no job of either side ends with an error. (What the server verifies, it
    complains about.)"""
    def judge(client, server):
        for output in (client, server):
            for job in jobs:
                assert re.search(rf"^{job}: \(groupid=.*err= 0:", output, re.MULTILINE), f"{job} has not ended well"
        done = re.findall(r"issued rwts: total=0,(\d+),0,0 short=0,0,0,0 dropped=0,0,0,0", client)
        assert done == [str(blocks)] * len(jobs), f"the client has sent {done} blocks"
        assert "verify" not in server, "contents are wrong"
        assert f"issued rwts: total={blocks},0,0,0" in server, "the server has not received all blocks"
    return judge


def says(*texts):
    """The lone command's output has all of the texts."""
    def judge(output, _=""):
        for text in texts:
            assert text in output, f"the output does not say '{text}'"
    return judge


def json_list(wanted):
    """The output is a list whose first element has, among others, these members."""
    def judge(output, _=""):
        first = json.loads(output)[0]
        for name, value in wanted.items():
            assert first.get(name) == value, f"{name} is {first.get(name)}, should be {value}"
    return judge


def pingpong(iterations):
    """ibv_*_pingpong. (With -c it reports wrong contents, and ends with 0 all the same.)"""
    def judge(*outputs):
        for output in outputs:
            found = re.search(r"^(\d+) iters in ([\d.]+) seconds", output, re.MULTILINE)
            assert found, "no result is printed"
            assert int(found.group(1)) % iterations == 0, f"{found.group(1)} exchanges instead of {iterations} per QP"
            assert "invalid data" not in output, "contents are wrong"
    return judge


def table(output):
    """The rows of perftest's table: column name to number."""
    lines = output.splitlines()
    head = next((i for i, line in enumerate(lines) if line.lstrip().startswith("#bytes")), None)
    assert head is not None, "no table is printed"
    names = re.findall(r"#\S+|[^\s#][^\[]*\[[^\]]*\]", lines[head])
    rows = []
    for line in lines[head + 1:]:
        if not re.fullmatch(r"(\s|[\d.]+|-?nan)+", line) or not line.strip():  # Deviations, after a stall, are none.
            break
        rows.append(dict(zip(names, map(float, line.split()))))
    return rows


def perftest(kind, sizes, iterations, new_post=False):
    """One row per size, all iterations done, a rate or a latency above zero, and posted by the calls that were asked for."""
    def judge(client, _=""):
        assert ("ibv_wr* API     : ON" in client) == new_post, "posted by the other calls"
        rows = table(client)
        assert [row["#bytes"] for row in rows] == sizes, f"sizes {[row['#bytes'] for row in rows]} instead of {sizes}"
        for row in rows:
            assert row["#iterations"] % iterations == 0 and row["#iterations"] > 0, f"iterations: {row}"
            measured = [value for name, value in row.items() if name.startswith(MEASURED[kind])]
            assert measured and (measured[0] > 0 or UNCALIBRATED in client), f"nothing measured: {row}"
    return judge


# perftest compares two clocks when it starts. Where other work disturbs that it says so, and prints zeros as rates.
UNCALIBRATED = "Correlation coefficient"


MEASURED = {"bw": "MsgRate", "lat": "t_typical"}  # a column that is not rounded to zero


def ucx_perftest(tests):
    """One line per test of the batch file: its name and what it measured."""
    def judge(client, _=""):
        for test in tests:
            found = re.search(rf"^ *{test} +(\d+) +([\d.]+ +)+(\d+) *$", client, re.MULTILINE)
            assert found, f"no result of {test}"
            assert int(found.group(1)) > 0 and int(found.group(3)) > 0, f"{test} did nothing: {found.group(0)}"
    return judge


def fi_pingpong(sizes):
    """libfabric's: a line per size, each message acknowledged; with -c it ends at the first wrong byte."""
    def judge(*outputs):
        for output in outputs:
            for size in sizes:
                found = re.search(rf"^{size} +(\d+) +=(\d+) ", output, re.MULTILINE)
                assert found and found.group(1) == found.group(2) != "0", f"no result, or not all, of {size}"
    return judge


def qperf(tests):
    """Each test prints its name and then what it measured; the verifying ones (ver_*) only what they counted."""
    def judge(client, _=""):
        for test in tests:
            found = re.search(rf"^{test}:\n((?: .*\n)+)", client, re.MULTILINE)
            assert found, f"no result of {test}"
            assert re.search(r"= +[1-9.]", found.group(1)), f"{test} measured nothing: {found.group(1)}"
    return judge


def both_say(*texts):
    """Server and client both end as they should."""
    def judge(client, server):
        for output in (client, server):
            says(*texts)(output)
    return judge


def client_says(*texts):
    """says(), of the client; the server tells nothing."""
    def judge(client, _):
        says(*texts)(client)
    return judge


def nothing_wrong(client, server):
    """Nobody complains: for programs that say something only then."""
    for output in (client, server):
        assert not re.search(r"error|fail|mismatch|invalid", output, re.IGNORECASE), "somebody complains"


def rping(count):
    """Both sides print each ping with its contents, which begin one letter later each time."""
    def judge(client, server):
        for role, output in (("", client), ("server ", server)):
            pings = re.findall(rf"^{role}ping data: rdma-ping-(\d+): (.)", output, re.MULTILINE)
            wanted = [(str(i), chr(ord("A") + i % 58)) for i in range(count)]
            assert pings == wanted, f"{role}pings {pings}"
    return judge
