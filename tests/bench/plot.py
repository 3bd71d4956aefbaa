# SPDX-License-Identifier: Apache-2.0
"""Throughput over message size, with the baselines, as an SVG."""
import statistics

import matplotlib
import measure

SIZES = [64, 512, 4096, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024, 4 * 1024 * 1024]
MTU = 4096
HEADERS = 16  # BTH and ICRC


def _verbs(**options):
    # Small messages need a deep queue to fill the pipe.
    return lambda seconds, size: measure.verbs(seconds, "bw", bytes=size, depth=64 if size < 65536 else 16,
                                               **options)["gigabits_per_second"]


def _raw(seconds, size):
    """UDP datagrams as a message of `size` would be cut into; what they carry."""
    payload = min(size, MTU)
    return measure.raw(seconds, payload + HEADERS) * payload * 8e-9


def _lines():
    yield "raw UDP, one datagram per packet", ":k", _raw
    yield "WRITE", "-o", _verbs(op="write")
    yield "SEND", "-s", _verbs(op="send")
    yield "READ", "-^", _verbs(op="read")
    yield "WRITE, offload mode", "-D", _verbs(op="write", offload=True)
    if measure.installed("iperf3"):
        yield "iperf3, TCP", "--", lambda seconds, size: measure.iperf3(seconds, size)["gigabits_per_second"]
    if measure.installed("ucx_perftest"):
        yield "UCX over TCP", "-.", lambda seconds, size: measure.ucx(seconds, size)["gigabits_per_second"]


def measure_sizes(rounds, seconds):
    """Medians by line and size; the lines take turns."""
    lines = list(_lines())
    values = {name: {size: [] for size in SIZES} for name, _, _ in lines}
    for _ in range(rounds):
        for size in SIZES:
            for name, _, run in lines:
                values[name][size].append(run(seconds, size))
    return {name: {size: statistics.median(v) for size, v in by_size.items()} for name, by_size in values.items()}


def draw(medians, path):
    matplotlib.use("svg")
    from matplotlib import pyplot
    matplotlib.rcParams["svg.hashsalt"] = "uroce"
    figure, axes = pyplot.subplots(figsize=(9, 5))
    for name, style, _ in _lines():
        if name in medians:
            sizes = sorted(medians[name], key=int)
            axes.plot([int(s) for s in sizes], [medians[name][s] for s in sizes], style, label=name, markersize=5)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(SIZES, [f"{s >> 20} MiB" if s >= 1 << 20 else f"{s >> 10} KiB" if s >= 1024 else f"{s} B" for s in SIZES])
    axes.set_yticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
    axes.set_xlabel("message")
    axes.set_ylabel("Gb/s")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
