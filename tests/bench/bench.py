#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The benchmark: every figure beside its baseline, both measured in the same run and in turns; medians.

    bench.py [--rounds N] [--seconds S] [--bin DIR] [--json FILE] [--record FILE] [--plot FILE] [PATTERN...]

Prints a table: what was measured, its baseline, their ratio, the target, how far rounds differ. PATTERN: only points whose name contains one.
Performance is no pass mark: the exit status tells only whether everything ran and all data arrived intact."""
import argparse
import dataclasses
import json
import statistics
import sys

import history
import measure
import perftest

GIB = 2**30
STEADY = 1.5  # A figure whose rounds differ by more than this factor is marked.
APART = 2.5   # Processors between which a cache line takes so much longer than at other times share no cache now.
PAIRS = 4     # Of programs, at once.
TRIES = 3     # Where that changes between ours and the baseline, both are measured again, until they were so often.


# Why rows miss their targets, where they do; docs/performance.md has what was measured for some of them.
ACKS = "RC sends two packets each way, the message and the ACK of the one before; raw sends one (see: raw, with ACKs)"
CALLS = "between a packet and its answer lie calls of the program: locks, WQEs, clocks; a microsecond or more"
TRAINS = "trains are UDP datagrams, and these have a limit of their own: see raw UDP, trains"
LINES = "a message and its ACK are some cache lines that go from one processor to the other: see what one takes"
RECEIVES = "UD has a receive and a completion for each packet, RC's WRITE has neither"
DELAYED = "each packet is kept in memory for the delay, which takes time of the processors that also send and receive"
TURNS = "QPs take turns: what a packet of the next one needs, and its memory, is not in the cache"
COLD = "what 10,000 QPs need for a packet is in no cache, and its place in page tables"
LOOKS = "packets are taken as they come: a call that finds few counts as much as one that finds many"
CONNECTION = "some 120 system calls for each connection, on both sides together, where each takes a microsecond"


class Point:
    """A figure and what it is measured against. `ours` and `base` take the seconds they may use and return a number."""

    def __init__(self, name, unit, ours, base, base_name, target, digits=2, why=""):
        self.name, self.unit, self.digits = name, unit, digits
        self.why = why        # it misses the target, when it does
        self.ours, self.base, self.base_name = ours, base, base_name
        self.target = target  # ">= 0.85": of ours / base
        self.values = []      # (ours, base) of each round
        self.cache_lines = []  # What a cache line took before each round

    def run(self, seconds):
        for _ in range(TRIES):
            before = measure.cache_line()
            values = self.ours(seconds), self.base(seconds)
            if before is None or 1 / APART < (measure.cache_line() or before) / before < APART:
                break
        self.cache_lines.append(before)
        self.values.append(values)

    def summary(self):
        ours, base = (statistics.median(column) for column in zip(*self.values))
        ratio = statistics.median(a / b for a, b in self.values)
        spread, base_spread = (max(column) / max(min(column), 1e-9) for column in zip(*self.values))
        relation, limit = self.target.split()
        met = ratio >= float(limit) if relation == ">=" else ratio <= float(limit)
        return {"name": self.name, "unit": self.unit, "ours": ours, "baseline": base, "baseline_name": self.base_name,
                "ratio": ratio, "target": self.target, "met": met, "why": "" if met else self.why,
                "spread": spread, "base_spread": base_spread, "rounds": self.values, "cache_line_ns": self.cache_lines}


class Runs:
    """Results kept for the tables behind the first; and the latest, which other points of the round refer to."""

    def __init__(self):
        self.all = {}        # From verbs runs.
        self.latencies = {}  # By name, ours and the baseline's.

    def gigabits(self, name, mode="bw", **options):
        def run(seconds):
            result = measure.verbs(seconds, mode, **options)
            self.all.setdefault(name, []).append(result)
            return result["gigabits_per_second"]
        return run

    def time(self, name, whose, run, key="half_round_trip_us"):
        """`run`, whose times are kept for the table of latencies; the point itself is about `key`."""
        def timed(seconds):
            result = run(seconds)
            self.latencies.setdefault(name, {"ours": [], "baseline": []})[whose].append(result)
            return result[key]
        return timed

    def latency(self, name, **options):
        def run(seconds):
            result = measure.verbs(seconds, "lat", **options)
            self.all.setdefault(name, []).append(result)
            return result
        return self.time(name, "ours", run)

    def pingpong(self, name, via, size):
        return self.time(name, "baseline", lambda seconds: measure.raw_pingpong(seconds, size, via))

    def again(self, name, key="gigabits_per_second"):
        """What `name` has measured in this round, to compare with."""
        return lambda seconds: self.last(self.all, name)[key]

    def per_packet(self, name, key):
        """Of both sides, in the round that `name` has measured last."""
        def run(seconds):
            sides = [self.last(self.all, name)[side] for side in ("client", "server")]
            return sum(side[key] for side in sides) / sum(side["packets_sent"] for side in sides)
        return run

    def time_again(self, name, whose, key):
        """Another figure of what time() has kept last."""
        return lambda seconds: self.last({name: self.latencies.get(name, {}).get(whose)}, name)[key]

    @staticmethod
    def last(results, name):
        if not results.get(name):
            raise RuntimeError(f"one of these rows shows another figure of one that was not asked for: {name}")
        return results[name][-1]

    def costs(self):
        rows = []
        for name, results in self.all.items():
            def median(f):
                return statistics.median(f(r) for r in results)
            def total(r, key):
                return r["client"][key] + r["server"][key]
            row = {"name": name, "threads": results[0]["threads"]}
            row["icrc_errors"] = sum(total(r, "icrc_errors") for r in results)
            row["overruns"] = sum(total(r, "receive_overruns") for r in results)
            if "cpu_seconds_per_gib" in results[0]:
                gib = lambda r: total(r, "cpu_seconds") / r["cpu_seconds_per_gib"]
                row["cpu_seconds_per_gib"] = median(lambda r: r["cpu_seconds_per_gib"])
                row["retransmits_per_gib"] = median(lambda r: total(r, "retransmitted_packets") / gib(r))
            else:
                row["retransmits"] = sum(total(r, "retransmitted_packets") for r in results)
            row["system_calls_per_packet"] = median(lambda r: total(r, "system_calls") / total(r, "packets_sent"))
            row["sleeps_per_packet"] = median(lambda r: total(r, "sleeps") / total(r, "packets_sent"))
            rows.append(row)
        return rows


def raw_gigabits(datagram, payload, **how):
    return lambda seconds: measure.raw(seconds, datagram, **how) * payload * 8e-9


def constant(value):
    return lambda seconds: value


def points_of_shared_memory(runs):
    """UROCE_WIRE=shm on both sides; each name begins with "shared memory"."""
    KIB, MIB = 1024, 2**20
    name = "shared memory, WRITE 64 KiB"
    yield Point(name, "Gb/s", runs.gigabits(name, op="write", bytes=64 * KIB, wire="shm"),
                runs.gigabits("WRITE 64 KiB, strict", op="write", bytes=64 * KIB), "UDP, strict", ">= 4", 1, perftest.PACKETS)
    if measure.installed("ucx_perftest"):
        for transport, what, target in (("tcp", "UCX over TCP", ">= 1.2"), ("posix", "UCX posix", ">= 0")):
            yield Point(name + " " * len(what), "Gb/s", runs.again(name),
                        lambda seconds, t=transport: measure.ucx(seconds, MIB, t)["gigabits_per_second"], what, target, 1, perftest.PACKETS)
    yield Point(name + " ", "Gb/s", runs.again(name),
                lambda seconds: measure.memory_copy(seconds, 64 * KIB)["gigabits_per_second"], "memcpy", ">= 0", 1)

    many = {"op": "write", "bytes": 4096, "qps": 10_000, "depth": 4}
    yield Point("shared memory, WRITE 4 KiB, 10,000 QPs", "Gb/s", runs.gigabits("shared memory, 10,000 QPs", wire="shm", **many),
                runs.gigabits("WRITE 4 KiB, 10,000 QPs", **many), "UDP, strict", ">= 1", 1, COLD)

    def small_sends(seconds):
        return runs.gigabits("shared memory, SEND 64 B", op="send", bytes=64, depth=64, wire="shm")(seconds) / 64 / 8e-6
    yield Point("shared memory, SEND 64 B, pipelined", "thousand/s", small_sends, constant(2000), "2000", ">= 1", 0, perftest.PACKETS)
    yield Point("shared memory, SEND 2 B, polling", "us", runs.latency("shared memory, SEND 2 B", op="send", bytes=2, wire="shm"),
                constant(1.5), "1.5", "<= 1", why=LINES)
    yield Point("shared memory, SEND 2 B, events", "us",
                runs.latency("shared memory, SEND 2 B, events", op="send", bytes=2, events=True, wire="shm"),
                lambda seconds: measure.eventfd_pingpong(seconds)["half_round_trip_us"], "eventfd", "<= 1.5", 1, perftest.EVENTS)
    yield Point("shared memory, idle", "% of a core",
                lambda seconds: measure.verbs(max(seconds, 1), "idle", wire="shm")["processor_share"] * 100,
                constant(0.2), "0.2", "<= 1", 3)


def points_of_networks(runs):
    """A path with a round trip. In the first rows both NICs hold back what they send for half of it, at the cost of some
    processor time; in the last ones a program that is no part of either side does."""
    def write(name, **options):
        return runs.gigabits(name, op="write", bytes=2**20, qps=4, **options)
    for round_trip, half in (("0.2 ms", "100us"), ("1 ms", "500us"), ("5 ms", "2500us")):
        name = f"networks, WRITE 1 MiB, {round_trip}"
        yield Point(name, "Gb/s", write(name, delay=half), write("networks, no delay"), "no delay", ">= 0.8",
                    why=DELAYED)
    if measure.installed("iperf3") and measure.has_long_path():
        for round_trip in (1, 5):
            def over_path(what, round_trip=round_trip):
                return lambda seconds: measure.long_path(seconds, round_trip, what)["gigabits_per_second"]
            yield Point(f"networks, a path of {round_trip} ms, WRITE 1 MiB", "Gb/s", over_path("uroce"), over_path("tcp"),
                        "iperf3 TCP", ">= 0.7")


def points_of_perftest(runs):
    """Each name begins with "perftest". Times are averages: what a user waits for in all."""
    for row in perftest.ROWS:
        for condition, before, beside, why in row.conditions:
            name = f"perftest, {condition}{row.command}"
            why = why or row.why

            def under(run, row=row, before=before, beside=beside):
                def conditioned(seconds):
                    with perftest.load(beside):
                        return run(row, seconds, before)
                return conditioned
            if row.raw == "small":
                yield Point(name, "thousand/s", under(perftest.thousands), under(perftest.raw_thousands), f"raw UDP, {row.bytes} B",
                            row.target, 0, why)
            elif row.raw == "blast":
                yield Point(name, "Gb/s", under(perftest.gigabits), under(perftest.raw_gigabits), f"raw UDP, {row.bytes} B",
                            row.target, why=why)
            else:
                yield Point(name, "us", runs.time(name, "ours", under(perftest.latency), "average_us"),
                            runs.time(name, "baseline", under(perftest.raw_latency), "average_us"), f"raw {row.raw}",
                            row.target, 1, why)
                takes_slices = before and row.raw == "io_uring"  # Two programs that poll, on one core.
                if row.acks and not beside and not takes_slices:
                    yield Point(f"{name} ", "us", runs.time_again(name, "ours", "average_us"),
                                lambda seconds, row=row, before=before: perftest.raw_latency(row, seconds, before, "pairs")["average_us"],
                                "raw, with ACKs", row.acks, 1, CALLS)
                if row.tail and not condition:
                    yield Point(f"{name}, p99", "us", runs.time_again(name, "ours", "p99_us"),
                                runs.time_again(name, "baseline", "p99_us"), f"raw {row.raw}", row.tail, 1, why)


def points_of_pairs():
    """More programs that poll than processors, each with a peer that needs one, too."""
    for row in perftest.ROWS:
        if row.command in ("ib_write_bw -s 65536", "ib_send_bw -s 65536"):
            yield Point(f"perftest, {PAIRS} pairs at once, {row.command}", "Gb/s",
                        lambda seconds, row=row: perftest.gigabits_of_pairs(row, seconds, PAIRS),
                        lambda seconds, row=row: perftest.raw_gigabits(row, seconds, [], PAIRS), f"raw UDP, {row.bytes} B, {PAIRS} pairs",
                        row.target, why=perftest.SLICES)


def points_of_services_and_tools():
    """Beside RC's WRITE with perftest, which other rows compare with raw datagrams, measured right behind: all of them
    differ from minute to minute."""
    def write(seconds, command=perftest.ROWS[0].command, wire="udp"):
        return perftest.gigabits(dataclasses.replace(perftest.ROWS[0], command=command), seconds, [], wire)

    for wire, name in (("udp", "perftest, "), ("shm", "perftest, shared memory, ")):
        for command in ("ib_write_bw -c UC -s 65536", "ib_send_bw -c UD -s 4096"):
            yield Point(name + command, "Gb/s", lambda seconds, c=command, w=wire: write(seconds, c, w),
                        lambda seconds, w=wire: write(seconds, wire=w), "ib_write_bw, RC", ">= 0.85",
                        why=RECEIVES if "UD" in command else "")
    for name, depth, base, base_name in (("", 32, write, "ib_write_bw"),
                                         (", depth 128", 128, lambda seconds: measure.rdma_client(seconds, 16), "depth 16")):
        yield Point(f"rdma_client, WRITE 64 KiB{name}", "Gb/s", lambda seconds, d=depth: measure.rdma_client(seconds, d), base,
                    base_name, ">= 0.95")


def points(runs):
    KIB, MIB = 1024, 2**20
    ceiling = (raw_gigabits(4112, 4096), "raw UDP, 4112 B")
    micro = lambda pattern, key: lambda seconds: next(iter(measure.micro(seconds, pattern).values()))[key]
    one_qp = runs.gigabits("WRITE 64 KiB", op="write", bytes=64 * KIB)
    yield Point("WRITE 64 KiB, 1 QP", "Gb/s", one_qp, *ceiling, ">= 0.85", why=perftest.PACKETS)
    def system_calls(name):
        return Point(f"{name}, system calls", "a packet", runs.per_packet(name, "system_calls"), constant(0.3), "0.3", "<= 1", why=LOOKS)
    yield system_calls("WRITE 64 KiB")
    yield Point("WRITE 64 KiB, 16 QPs", "Gb/s", runs.gigabits("WRITE 64 KiB, 16 QPs", op="write", bytes=64 * KIB, qps=16),
                one_qp, "1 QP", ">= 0.95", why=TURNS)
    yield Point("WRITE 64 KiB, 1000 QPs", "Gb/s",
                runs.gigabits("WRITE 64 KiB, 1000 QPs", op="write", bytes=64 * KIB, qps=1000),
                one_qp, "1 QP", ">= 0.8", why=TURNS)
    yield Point("SEND 64 KiB, 1 QP", "Gb/s", runs.gigabits("SEND 64 KiB", op="send", bytes=64 * KIB), *ceiling, ">= 0.80", why=perftest.PACKETS)
    yield system_calls("SEND 64 KiB")
    yield Point("READ 64 KiB, 1 QP", "Gb/s", runs.gigabits("READ 64 KiB", op="read", bytes=64 * KIB), *ceiling, ">= 0.80", why=perftest.PACKETS)
    yield system_calls("READ 64 KiB")

    def small_sends(seconds):
        return runs.gigabits("SEND 64 B", op="send", bytes=64, depth=64)(seconds) / 64 / 8e-6
    yield Point("SEND 64 B, pipelined", "thousand/s", small_sends,
                lambda seconds: measure.raw(seconds, 80) / 1e3, "raw UDP, 80 B", ">= 0.9", 0, perftest.PACKETS)
    yield Point("SEND 64 B, sent again", "a packet", runs.per_packet("SEND 64 B", "retransmitted_packets"), constant(1e-6), "1e-6", "<= 1", 6)

    for op, size in (("send", 20), ("write", 36)):
        name = f"{op.upper()} 2 B"
        yield Point(f"{name}, half round trip, polling", "us", runs.latency(name, op=op, bytes=2),
                    runs.pingpong(name, "io_uring", size), "raw io_uring", "<= 1.5", why=ACKS)
    name = "WRITE 2 B, watching memory"
    yield Point(f"{name}, half round trip", "us", runs.latency(name, op="write", bytes=2, watch=True),
                runs.pingpong(name, "io_uring", 36), "raw io_uring", "<= 4", why=perftest.MEMORY)
    yield Point("SEND 2 B, half round trip, polling", "us", runs.again("SEND 2 B", "half_round_trip_us"),
                lambda seconds: measure.raw_pingpong(seconds, 20, "io_uring", mode="pairs")["half_round_trip_us"],
                "raw, with ACKs", "<= 1.25", why=CALLS)
    # Who polls does not sleep; with events, each side wakes up once for each message, which is two packets.
    yield Point("SEND 2 B, polling, sleeps", "a packet", runs.per_packet("SEND 2 B", "sleeps"), constant(0.01), "0.01", "<= 1", 3)
    yield Point("SEND 2 B, half round trip, events", "us", runs.latency("SEND 2 B, events", op="send", bytes=2, events=True),
                runs.pingpong("SEND 2 B, events", "blocking", 20), "raw blocking", "<= 1.5", 1, perftest.EVENTS)
    yield Point("SEND 2 B, events, sleeps", "a packet", runs.per_packet("SEND 2 B, events", "sleeps"), constant(0.5), "0.5", "<= 1", 3)

    offload = runs.gigabits("WRITE 1 MiB, offload", op="write", bytes=MIB, offload=True)
    if measure.installed("iperf3"):
        yield Point("WRITE 1 MiB, offload", "Gb/s", offload,
                    lambda seconds: measure.iperf3(seconds)["gigabits_per_second"], "iperf3 TCP", ">= 1", 1)
    if measure.installed("ucx_perftest"):
        yield Point("WRITE 1 MiB, offload ", "Gb/s", offload,
                    lambda seconds: measure.ucx(seconds, MIB)["gigabits_per_second"], "UCX over TCP", ">= 1.2", 1, TRAINS)
    yield Point("WRITE 1 MiB, offload  ", "Gb/s", offload, runs.gigabits("WRITE 1 MiB", op="write", bytes=MIB),
                "strict mode", ">= 3", 1, TRAINS)
    yield Point("WRITE 1 MiB, offload   ", "Gb/s", offload, raw_gigabits(4112, 4096, how=("trains",)), "raw UDP, trains", ">= 0", 1)

    if measure.installed("ib_write_bw"):
        yield from points_of_perftest(runs)
        yield from points_of_pairs()
        yield from points_of_services_and_tools()
    yield from points_of_shared_memory(runs)
    yield from points_of_networks(runs)

    yield Point("requester + responder, WRITE of 4 KiB", "million packets/s",
                lambda seconds: micro("transfer/write/65536/1", "packets")(seconds) / 1e6, constant(2), "2", ">= 1", why=perftest.PACKETS)
    yield Point("ICRC, 4 KiB", "GB/s", lambda seconds: micro("icrc_bytes/4096", "bytes_per_second")(seconds) / 1e9,
                constant(15), "15", ">= 1", 1)
    yield Point("parse of headers", "ns", micro("parse/4096", "cpu_ns"), constant(20), "20", "<= 1", 1)

    def packet_cost(qps):
        def run(seconds):
            return 1e9 / micro(f"transfer/write/4096/{qps}", "packets")(seconds)
        return run
    yield Point("cost of a packet, 10,000 QPs", "ns", packet_cost(10000), packet_cost(1), "1 QP", "<= 1.3", 0, COLD)

    def scale(key, factor=1.0):
        def run(seconds):
            result = measure.verbs(min(seconds, 0.2), "bw", op="write", bytes=64, qps=10000, depth=16)
            runs.all.setdefault("10,000 QPs", []).append(result)
            return result[key] * factor
        return run
    yield Point("10,000 QPs: to connect them", "s", scale("setup_seconds"), constant(5), "5", "<= 1")
    yield Point("10,000 QPs: memory of each", "KiB", lambda seconds: runs.all["10,000 QPs"][-1]["bytes_per_qp"] / 1024,
                constant(64), "64", "<= 1", 1)
    if measure.installed("cmtime"):
        connects = []

        def connect(seconds):
            connects.append(measure.rdma_cm()["connections_per_second"] / 1e3)
            return connects[-1]
        yield Point("connections by RDMA CM", "thousand/s", connect, constant(3), "3", ">= 1", 1, CONNECTION)
        yield Point("connections by RDMA CM ", "thousand/s", lambda seconds: connects[-1],
                    lambda seconds: measure.tcp_connections(seconds)["connections_per_second"] / 1e3, "TCP", ">= 0", 1)
    yield Point("idle", "% of a core", lambda seconds: measure.verbs(max(seconds, 1), "idle")["processor_share"] * 100,
                constant(0.2), "0.2", "<= 1", 3)


def remarks(s, reasons, shortest):
    """What is to be said of a figure, if anything; `reasons` are numbered below the table. `shortest`: what a cache line took
    when it was quickest."""
    if not s["met"]:
        yield "MISSED" + (f" [{reasons.index(s['why']) + 1}]" if s["why"] else "")
    if s["spread"] > STEADY:
        yield "rounds differ"
    if s["base_spread"] > STEADY:
        yield f"baseline's by {s['base_spread']:.1f}"
    apart = sum(None not in (ns, shortest) and ns > APART * shortest for ns in s["cache_line_ns"])
    if apart:
        yield f"no common cache in {apart} of {len(s['cache_line_ns'])}"


def print_table(summaries, digits, shortest):
    reasons = list(dict.fromkeys(s["why"] for s in summaries if s["why"]))
    print(f"{'':52} {'ours':>8} {'baseline':>9}  {'':18} {'ratio':>6}  {'target':8} {'spread':>6}")
    for s, d in zip(summaries, digits):
        spread = f"{s['spread']:6.2f}" if len(s["rounds"]) > 1 else ""
        print(f"{s['name'].strip() + ' [' + s['unit'] + ']':52} {s['ours']:8.{d}f} {s['baseline']:9.{d}f}  "
              f"{s['baseline_name']:18} {s['ratio']:6.2f}  {s['target']:8} {spread:6}   {'; '.join(remarks(s, reasons, shortest))}".rstrip())
    for number, reason in enumerate(reasons, 1):
        print(f"[{number}] {reason}")


TIMES = {"average_us": "average", "half_round_trip_us": "p50", "p99_us": "p99", "p999_us": "p99.9"}


def print_latencies(latencies):
    """Medians over the rounds."""
    heads = "".join(f"{head:>9}" for head in TIMES.values())
    print(f"\n{'half round trips [us]':42}{'ours':^36}   {'baseline':^36}\n{'':42}{heads}   {heads}")
    for name, times in latencies.items():
        def columns(results):
            return "".join(f"{statistics.median(r[key] for r in results):9.1f}" for key in TIMES) if results else ""
        print(f"{name:42}{columns(times['ours'])}   {columns(times['baseline'])}".rstrip())


def print_costs(rows):
    print(f"\n{'':24} {'CPU s/GiB':>9} {'retransmits':>12} {'ICRC':>6} {'over-':>6} {'system calls':>13} {'sleeps':>9} {'threads':>8}")
    print(f"{'':24} {'both':>9} {'/GiB':>12} {'errors':>6} {'runs':>6} {'/packet':>13} {'/packet':>9} {'a side':>8}")
    for r in rows:
        cpu = f"{r['cpu_seconds_per_gib']:9.2f}" if "cpu_seconds_per_gib" in r else f"{'':9}"
        again = f"{r['retransmits_per_gib']:12.2f}" if "retransmits_per_gib" in r else f"{r['retransmits']:6d} in all"
        print(f"{r['name']:24} {cpu} {again:>12} {r['icrc_errors']:6} {r['overruns']:6} "
              f"{r['system_calls_per_packet']:13.2f} {r['sleeps_per_packet']:9.3f} {r['threads']:8}")


MICRO = {  # What one of them costs, by the name of its benchmark.
    "build a packet of 4 KiB": "build/4096", "parse its headers": "parse/4096", "its ICRC": "icrc_bytes/4096",
    "check its ICRC": "check/id_zero/4096", "post a WR": "post_send/manual_time", "a CQE, in and out": "poll_cq"}


def micro_costs(seconds):
    results = measure.micro(seconds, "|".join(MICRO.values()))
    return {what: 1e9 / results[name]["items_per_second"] for what, name in MICRO.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--bin", help="where the programs are", default=measure.BIN)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--record", metavar="FILE", help="append the figures to this history, a line for each run")
    parser.add_argument("--plot", metavar="FILE", help="throughput over message size, as SVG (needs matplotlib)")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    args = parser.parse_args()

    if args.plot:
        import plot  # Not everybody has matplotlib, which this imports: now, not after minutes of measuring.
    measure.BIN = args.bin
    runs = Runs()
    chosen = [p for p in points(runs) if not args.patterns or any(word in p.name for word in args.patterns)]
    for number in range(args.rounds):
        for point in chosen:
            print(f"\rround {number + 1}/{args.rounds}: {point.name:60}", end="", file=sys.stderr, flush=True)
            point.run(args.seconds)
    print("\r" + " " * 80 + "\r", end="", file=sys.stderr)

    summaries = [p.summary() for p in chosen]
    machine = measure.machine()
    print(f"{machine['processor']} (family/model {machine['model']}), {machine['cores']} cores, Linux {machine['kernel']}\n"
          f"medians of {args.rounds} rounds of {args.seconds:g} s; spread: the largest of ours over the smallest; data verified in "
          "every run of our own programs")
    cache_lines = [ns for p in chosen for ns in p.cache_lines if ns is not None]
    if cache_lines:
        print(f"a cache line took {min(cache_lines):.0f} to {max(cache_lines):.0f} ns from one processor to another and back")
    print()
    print_table(summaries, [p.digits for p in chosen], min(cache_lines, default=None))
    if runs.latencies:
        print_latencies(runs.latencies)
    if runs.all:
        print_costs(runs.costs())
    report = {"machine": machine, "points": summaries, "costs": runs.costs(), "latencies": runs.latencies}
    if not args.patterns:
        report["micro_ns"] = micro_costs(args.seconds)
        print("\n" + "; ".join(f"{what} {ns:.1f} ns" for what, ns in report["micro_ns"].items()))
    if args.plot:
        report["sizes"] = plot.measure_sizes(args.rounds, args.seconds / 2)
        plot.draw(report["sizes"], args.plot)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    if args.record:
        history.append(args.record, report, args.rounds, args.seconds)


if __name__ == "__main__":
    main()
