# SPDX-License-Identifier: Apache-2.0
"""Which programs of the distribution run on the emulated NIC, with which options, and what they must say.

A case is one command, or the same command as a server and, with the server's address, as a client. Cases that are much
alike form a group, which is one test of ctest.
"""

import pathlib
from typing import Callable, NamedTuple

import judges

TCP_PORT = 18515  # of ibv_*_pingpong and perftest
RDMA_CM = -1  # The server listens by RDMA CM, which nobody sees; clients that are refused come again, or see Case.ready.
QPERF_PORT = 19765
UCX_PORT = 13337
LIBFABRIC_PORT = 47592
HERE = pathlib.Path(__file__).resolve().parent


class Case(NamedTuple):
    name: str
    command: str
    judge: Callable  # judge(output of the client or the lone command, output of the server): raises AssertionError
    port: int = 0    # the TCP port that the server listens on; 0: there is no server
    client: str = ""  # arguments of the client only
    missing: str = ""  # why the case cannot pass yet; it is listed and not run
    settings: dict = {}  # environment variables
    capture: bool = True  # False where there are too many packets to look at each
    shared: bool = False  # server and client have one address
    needs: tuple = ()  # programs beside the command itself
    mtu: int = 0  # of the network between two hosts; 0: all is on one
    speaks: bool = False  # what runs alone has something to capture: it starts processes that talk to each other
    server: str = ""  # the command of the server, if it is another one
    to: str = "{}"  # how the client's command names the server's address
    endless: bool = False  # the server does not end by itself
    connections: int = 0  # RDMA_CM: how many the captures have
    datagrams: int = 0  # RDMA_CM: how many QPs are found by SIDR
    ready: tuple = ()  # RDMA_CM: what the server says when it listens, and how often; nothing: refused clients come again
    loses_end: bool = False  # RDMA_CM: what the client says at its end is lost, and is said again when it is gone
    own_qps: bool = False  # RDMA_CM: it connects more QPs, by itself
    lossy: bool = False  # UC or UD: what the receiver's buffer does not take is gone, and the program waits for it for ever
    leaves: bool = False  # RDMA_CM: the server may be gone before it hears that the client disconnects


def pingpongs(transport, events=True, missing=""):
    """ibv_TRANSPORT_pingpong: as it is, sleeping on events, with contents checked, and with messages of many packets."""
    options = {"plain": "", "checked": "-c", "events": "-e", "checked_events": "-c -e"}
    options["long"] = "-s 2048 -c" if transport == "ud" else "-s 100000 -m 4096 -c"  # UD: one packet, PORT's MTU
    for name, more in options.items():
        iterations = 20 if name == "long" else 200
        command = f"ibv_{transport}_pingpong -g 1 -n {iterations} {more}"
        yield Case(f"{transport}_pingpong_{name}", command, judges.pingpong(iterations), TCP_PORT, missing=missing)


def extended_pingpongs():
    """ibv_rc_pingpong with extended CQs (-t), the builder API (-N), on-demand regions (-o, with prefetch -P; -O: implicit)."""
    for name, more in {"timestamps": "-t", "new_send": "-N -c", "timestamps_new_send": "-t -N", "on_demand": "-o -c",
                       "prefetch": "-o -P -c", "implicit_on_demand": "-O -c", "on_demand_events": "-o -e -c"}.items():
        yield Case(f"rc_pingpong_{name}", f"ibv_rc_pingpong -g 1 -n 200 {more}", judges.pingpong(200), TCP_PORT)


# perftest posts with ibv_wr_* on the cards that it knows, and with ibv_post_send on others.
A_CARD_IT_KNOWS = {"UROCE_VENDOR": "0x02c9:4119"}


def perftest(op, kind, name="", options="", iterations=100, size=4100, missing=""):
    """ib_OP_KIND. size None: the program's own (atomics: 8). "new_post" in the name: with ibv_wr_*."""
    command = f"ib_{op}_{kind} -d uroce0 -x 1 -F -n {iterations}"
    if size is not None:
        command += f" -s {size}"
    new_post = "new_post" in name
    judge = judges.perftest(kind, [8 if size is None else size], iterations, new_post)
    return Case("_".join(filter(None, [op, kind, name])), f"{command} {options}".rstrip(), judge, TCP_PORT,
                missing=missing, settings=A_CARD_IT_KNOWS if new_post else {})


def all_sizes(op, options="", name="all_sizes", largest=23, missing=""):
    judge = judges.perftest("bw", [1 << bit for bit in range(1, largest + 1)], 5)
    return Case(f"{op}_bw_{name}", f"ib_{op}_bw -d uroce0 -x 1 -F -n 5 -a {options}", judge, TCP_PORT, missing=missing)


def reliable(op):
    """RC: both ways to post, many QPs, both directions, events, all sizes."""
    size = None if op == "atomic" else 4100
    for kind in ("bw", "lat"):
        yield perftest(op, kind, size=size)
        yield perftest(op, kind, "old_post", "--use_old_post_send", size=size)
        yield perftest(op, kind, "new_post", size=size)
    yield perftest(op, "bw", "16_qps", "-q 16", size=size)
    yield perftest(op, "bw", "new_post_16_qps", "-q 16", size=size)
    yield perftest(op, "bw", "both_ways", "-b", size=size)
    if op != "write":  # perftest has no events for RDMA WRITE.
        yield perftest(op, "bw", "events", "-e", size=size)
        yield perftest(op, "lat", "events", "-e", size=size)
    if op in ("send", "write"):
        yield perftest(op, "lat", "inline", "-I 200", size=200)
        yield perftest(op, "lat", "new_post_inline", "-I 200", size=200)
    if op == "send":
        yield all_sizes(op)
    elif op != "atomic":  # Not all: of each size perftest measures the clock's rate anew, 0.2 s of two busy processors.
        yield perftest(op, "bw", "largest", iterations=5, size=1 << 23)
    else:
        yield perftest(op, "bw", "compare_swap", "-A CMP_AND_SWAP", size=size)
        yield perftest(op, "lat", "fetch_add", "-A FETCH_AND_ADD", size=size)
    if op == "send":
        for kind in ("bw", "lat"):
            yield perftest(op, kind, "srq", "--use-srq")
        yield perftest(op, "bw", "srq_16_qps", "--use-srq -q 16")
        yield perftest(op, "bw", "srq_events", "--use-srq -e")


def unreliable():
    """UC and UD. Nothing is lost on the loopback interface as long as the receiver has receives posted and buffers. An
    ordinary user's socket buffers 25 packets: a receiver that has no processor for longer loses some."""
    for case in unreliable_cases():
        yield case._replace(lossy=True)


def unreliable_cases():
    for op, transport, size in (("send", "UC", 4100), ("write", "UC", 4100), ("send", "UD", 2000)):
        tag = transport.lower()
        for kind in ("bw", "lat"):
            yield perftest(op, kind, tag, f"-c {transport}", size=size)
            yield perftest(op, kind, f"{tag}_old_post", f"-c {transport} --use_old_post_send", size=size)
            yield perftest(op, kind, f"{tag}_new_post", f"-c {transport}", size=size)
        # 16 times as many messages at once; a case that loses one waits for it until its time is over.
        yield perftest(op, "bw", f"{tag}_16_qps", f"-c {transport} -q 16", size=size, iterations=20)
        yield perftest(op, "bw", f"{tag}_both_ways", f"-c {transport} -b", size=size)
        if op == "send":
            yield perftest(op, "bw", f"{tag}_events", f"-c {transport} -e", size=size)
            yield perftest(op, "lat", f"{tag}_events", f"-c {transport} -e", size=size)
    yield all_sizes("send", "-c UD", "ud_all_sizes", 12)  # UD: up to the MTU
    yield perftest("send", "bw", "ud_srq", "-c UD --use-srq", size=2000)


def qperf(tests, name="", options="-i uroce0:1"):
    """One server serves all tests, a second each; the last one, quit, ends it. qperf knows its peer by LID alone."""
    return Case("qperf_" + (name or tests.split()[0]), "qperf", judges.qperf(tests.split()), QPERF_PORT,
                f"-t 1 {options} {tests} quit", settings={"UROCE_LID": "on"}, capture=False)


def ucx(transports, mtu=0, sleep=False):
    """ucx_perftest: the tests of ucx_perftest.txt, one after the other, over these transports of UCX alone. Who sleeps
    for events is not told of PUT and GET to its memory: ucx_sleep.txt has the other tests, and makes them longer."""
    tests = HERE / ("ucx_sleep.txt" if sleep else "ucx_perftest.txt")
    name = "_".join(["ucx", *transports.replace("_verbs", "").split(","), *(["sleep"] if sleep else []),
                     *([f"mtu_{mtu}"] if mtu else [])])
    judge = judges.ucx_perftest([line.split()[0] for line in tests.read_text().splitlines()])
    command = f"ucx_perftest -f -b {tests}" + (" -E sleep" if sleep else "")
    return Case(name, command, judge, UCX_PORT, settings={"UCX_TLS": f"{transports},self"}, shared=not mtu, mtu=mtu)


def open_mpi(ranks, mtu=0, transports="rc_verbs,ud_verbs"):
    """mpi_check.c with Open MPI on UCX. On two hosts, half of the ranks are on each."""
    command = f"mpirun.openmpi -n {ranks} -mca pml ucx -mca osc ucx -x UCX_TLS={transports},self -x PATH -x UROCE_PCAP"
    command += f" --host 10.99.0.1:{ranks // 2},10.99.0.2:{ranks // 2} {HERE}/on_eth0.sh" if mtu else " --oversubscribe"
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # We are, of our own namespace.
    return Case(f"open_mpi_{ranks}" + (f"_mtu_{mtu}" if mtu else ""), f"{command} mpi_check",
                judges.says(f"ok: {ranks} ranks"), settings=root, mtu=mtu, speaks=True, needs=("mpi_check",))


def mpich(ranks):
    """The same with MPICH, whose Debian package is on UCX."""
    settings = {"UCX_TLS": "rc_verbs,ud_verbs,self"}
    return Case(f"mpich_{ranks}", f"mpiexec.mpich -n {ranks} mpi_check_mpich", judges.says(f"ok: {ranks} ranks"),
                settings=settings, capture=False, needs=("mpi_check_mpich",))


def libfabric(provider, endpoint, sizes, mtu=0, only=""):
    """fi_pingpong with contents checked, three messages a size. dgram and rxd take GID 0; msg connects by RDMA CM.
    The hooks of its memory monitor rewrite munmap() while other threads may be in it, which then crash."""
    name = "_".join(["fi_pingpong", *provider.split(";ofi_"), endpoint] + ([f"mtu_{mtu}"] if mtu else []))
    return Case(name, f"fi_pingpong -p '{provider}' -e {endpoint} -c -I 3{only}", judges.fi_pingpong(sizes.split()),
                LIBFABRIC_PORT, shared=not mtu, mtu=mtu, settings={"FI_MR_CACHE_MONITOR": "disabled"})


def rdma_cm(name, server, client, judge, connections=1, **more):
    """A pair that connects by RDMA CM. `client`: {} stands for the server's address."""
    command, _, to = client.partition(" ")
    return Case(f"cm_{name}", command, judge, RDMA_CM, server=server, to=to, connections=connections, **more)


def fio():
    """Three jobs at once, each a process and a connection: RDMA WRITE, RDMA READ and SEND. The server's jobs are readers,
    whatever the verb is. fio can verify only what comes in receives. It ends with 0 even when it was refused. It asks for
    no RNR retries, so the server has a receive for each of the 64 blocks: on a busy machine it falls behind."""
    common = "fio --ioengine=rdma --bs=64k --size=4m --verify_state_save=0"
    server = common + " --rw=read --iodepth=64"
    client = common + " --rw=write --iodepth=8 --do_verify=0 --hostname={}"
    for port, verb in enumerate(("write", "read", "send"), 18600):
        more = " --verify=crc32c" if verb == "send" else ""
        server += f" --name={verb} --port={port}{more}"
        client += f" --name={verb} --port={port} --verb={verb}{more}"
    return rdma_cm("fio", server, client, judges.fio(("write", "read", "send"), 64), 3, shared=True,
                   leaves=True, ready=("fio: waiting for connection", 3))


def ucx_by_cm():
    """io_demo of UCX: a client reads from a server and writes to it, 60 times, up to 100 kB, and both check the contents."""
    command = "io_demo -q -o read,write -d 64:100000"
    return rdma_cm("ucx_io_demo", command, command + " -i 60 {}", judges.io_demo(60),
                   settings={"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm"},
                   ready=("started listener", 1), endless=True, leaves=True, own_qps=True)


def iser():
    """A disk of tgtd, written and read by libiscsi, all on one address: 60,000 packets."""
    return Case("iser", f"{HERE}/iser.sh", judges.says("ok"), capture=False, needs=("tgtd", "tgtadm", "iscsi-test-cu"))


def rcopy():
    """A file, by rsockets; the server waits for the next one."""
    client = "sh -c 'copy=$(mktemp); rcopy $0 {}:$copy && cmp $0 $copy; s=$?; rm $copy; exit $s' /usr/bin/ib_send_bw"
    return rdma_cm("rcopy", "rcopy", client, judges.client_says("Gb/sec"), endless=True, needs=("rcopy",))


def tcp_over_rsockets():
    """An ordinary TCP program whose sockets librspreload makes rsockets."""
    over = "sh -c 'LD_PRELOAD=$(echo /usr/lib/*/rsocket/librspreload.so):$LD_PRELOAD exec iperf $0 $*'"
    return rdma_cm("iperf", f"{over} -s -P 1", f"{over} -n 4M -c {{}}", judges.both_say("4.00 MBytes"), needs=("iperf",))


def mckey():
    """Two receivers in a multicast group, and a sender, on another NIC of the host."""
    receiver = "stdbuf -oL mckey -m 239.5.5.5 -b {0} -C 10"
    return rdma_cm("mckey", f"sh -c '{receiver} & {receiver} && wait $!'", "mckey -m 239.5.5.5 -b 127.0.0.2 -C 10 -s",
                   judges.mckey(2), 0, ready=("joined dgid: ::ffff:239.5.5.5", 2))


def perftest_by_cm(op, kind, options="", size=4100, connections=2, datagrams=0, iterations=100):
    """With -R: a first connection carries the parameters; those of the test follow, to the same port."""
    command = f"ib_{op}_{kind} -R -d uroce0 -F -n 100 {options}" + ("" if size is None else f" -s {size}")
    tag = "_".join([op, kind, *options.replace("-", "").lower().split()])
    judge = judges.perftest(kind, [8 if size is None else size], iterations)
    return rdma_cm(tag, command, command + " {}", judge, connections, datagrams=datagrams)


def iproute2():
    """rdma of iproute2, which asks by netlink; in words and as JSON."""
    yield Case("rdma_link", "rdma link", judges.says("link uroce0/1 state ACTIVE physical_state LINK_UP netdev lo"))
    yield Case("rdma_link_json", "rdma link show -j",
               judges.json_list({"ifname": "uroce0", "port": 1, "state": "ACTIVE", "netdev": "lo"}))
    yield Case("rdma_dev", "rdma dev", judges.says("uroce0: node_type ca", "node_guid 0200:7fff:fe00:0001"))
    yield Case("rdma_dev_json", "rdma -j dev", judges.json_list({"ifname": "uroce0", "node_type": "ca"}))
    yield Case("rdma_statistic", "rdma statistic show", judges.says("link uroce0/1 sent_pkts"))
    yield Case("rdma_statistic_json", "rdma -j statistic show",
               judges.json_list({"ifname": "uroce0", "port": 1, "sent_pkts": 0}))
    # A program with QPs that asks, by another process, what there is. (pyverbs is for Debian's Python.)
    yield Case("rdma_res_qp", f"/usr/bin/python3 {HERE}/rdma_res.py", judges.says("ok"))


def sanitized_forks(compiler, wire):
    """A program of ours, built with an address sanitizer, whose children look for leaks when they end."""
    settings = {"UROCE_WIRE": wire, "UROCE_CONTROL": "on"}  # All threads that a NIC may have.
    return Case(f"forks_{compiler}_{wire}", f"env UROCE_ADDR='127.0.0.1;127.0.0.3' forks_{compiler}",
                judges.says("no child has lost anything"), settings=settings, capture=False, needs=(f"forks_{compiler}",))


MEMCHECK = "valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite"
MEMCHECK_RPING = f"{MEMCHECK} --suppressions={HERE / 'rping.supp'}"

GROUPS = {
    "look": [
        Case("devices", "ibv_devices", judges.says("uroce0")),
        Case("devinfo", "ibv_devinfo -v",
             judges.says("uroce0", "PORT_ACTIVE", "Ethernet", "::ffff:127.0.0.1", "RoCE v2")),
        Case("dlopen", "dlopen_probe", judges.says("64 bytes written")),  # ours, but made as NCCL and others are
        *(Case(f"dlopen_plugin_{wire}", 'sh -c \'dlopen_probe "$(dirname "$(command -v dlopen_probe)")/plugin.so"\'',
               judges.says("loaded and unloaded"), settings={"UROCE_WIRE": wire, "UROCE_BROKER": "off"})
          for wire in ("udp", "shm")),
        Case("lids", "lid_probe", judges.says("answered by its LID"), settings={"UROCE_LID": "on"}),
        Case("ucx_info", "ucx_info -d", judges.says("Device: uroce0:1")),
        Case("ibstat", "ibstat", judges.says("State: Active", "Link layer: Ethernet")),
        Case("ibstatus", "ibstatus", judges.says("4: ACTIVE", "5: LinkUp")),  # a shell script: it changes into the view
    ],
    "rdma": list(iproute2()),
    "memcheck": [
        Case("memcheck_devinfo", f"{MEMCHECK} ibv_devinfo -v", judges.says("PORT_ACTIVE")),
        Case("memcheck_rc_pingpong", f"{MEMCHECK} ibv_rc_pingpong -g 1 -n 50 -c", judges.pingpong(50), TCP_PORT),
        rdma_cm("memcheck_rping", f"{MEMCHECK_RPING} rping -s -a {{}} -v -C 3", f"{MEMCHECK_RPING} rping -c -a {{}} -v -C 3",
                judges.rping(3)),
    ],
    # Dates that are feigned, on programs that sleep until answers are late.
    "faketime": [Case(f"faketime_rc_pingpong_{name}", f"faketime -f {date} ibv_rc_pingpong -g 1 -n 200 -e -c", judges.pingpong(200),
                      TCP_PORT, settings={"UROCE_FAULTS": "loss=5%", **more}, needs=("ibv_rc_pingpong",))
                 for name, date, more in (("future", "+1y", {}), ("past", "-1y", {"DONT_FAKE_MONOTONIC": "1"}))],
    "sanitized": [sanitized_forks(compiler, wire) for compiler in ("gcc", "clang") for wire in ("udp", "shm")],
    "rc_pingpong": [*pingpongs("rc"), *extended_pingpongs()],
    "uc_pingpong": list(pingpongs("uc")),
    "ud_pingpong": list(pingpongs("ud")),
    "srq_pingpong": list(pingpongs("srq")),
    "send": list(reliable("send")),
    "write": list(reliable("write")),
    "read": list(reliable("read")),
    "atomic": list(reliable("atomic")),
    "unreliable": list(unreliable()),
    "ucx": [ucx("rc_verbs,ud_verbs"), ucx("ud_verbs"), ucx("rc_verbs,ud_verbs", sleep=True),
            ucx("ud_verbs", sleep=True), ucx("rc_verbs,ud_verbs", 9000), ucx("ud_verbs", 1500)],
    "open_mpi": [open_mpi(2), open_mpi(4), open_mpi(2, 9000), open_mpi(4, 1500)],
    "mpich": [mpich(2)],
    "libfabric": [
        libfabric("verbs", "dgram", "64 256 1k"),
        libfabric("verbs;ofi_rxd", "rdm", "64k", only=" -S 65536"),
        libfabric("verbs", "msg", "64 256 1k 4k 64k 1m", 1500),
    ],
    "rdmacm": [
        rdma_cm("rping", "rping -s -a {} -v -C 10", "rping -c -a {} -v -C 10", judges.rping(10)),
        rdma_cm("rping_64k", "rping -s -a {} -V -S 65535 -C 20", "rping -c -a {} -V -S 65535 -C 20", judges.nothing_wrong),
        rdma_cm("rping_any", "rping -s -v -C 3", "rping -c -a {} -v -C 3", judges.rping(3)),
        rdma_cm("rping_persistent", "rping -s -P -a {} -v", "rping -c -a {} -v -C 5", judges.client_says("rdma-ping-4"),
                endless=True),
        rdma_cm("rping_lost_end", "rping -s -a {} -v -C 3", "rping -c -a {} -v -C 3", judges.rping(3),
                settings={"UROCE_FAULTS": "drop=op:cm_dreq"}, loses_end=True),
        rdma_cm("ucmatose", "ucmatose -c 10", "ucmatose -c 10 -s {}", judges.both_say("return status 0"), 10),
        rdma_cm("ucmatose_migrate", "ucmatose -m -c 3", "ucmatose -m -c 3 -s {}", judges.both_say("return status 0"), 3),
        rdma_cm("udaddy", "udaddy", "udaddy -s {}", judges.both_say("return status 0"), 0, datagrams=1),
        rdma_cm("udaddy_4", "udaddy -c 4", "udaddy -c 4 -s {}", judges.both_say("return status 0"), 0, datagrams=4),
        rdma_cm("client_server", "/usr/bin/rdma_server", "/usr/bin/rdma_client -s {}", judges.both_say("end 0")),
        rdma_cm("xclient_xserver", "rdma_xserver", "rdma_xclient -s {}", judges.both_say("end 0")),
        rcopy(),
        rdma_cm("rping_shared", "rping -s -a {} -v -C 10", "rping -c -a {} -v -C 10", judges.rping(10), shared=True),
        rdma_cm("ucmatose_shared", "ucmatose -c 10", "ucmatose -c 10 -s {}", judges.both_say("return status 0"), 10,
                shared=True),
        rdma_cm("udaddy_shared", "udaddy", "udaddy -s {}", judges.both_say("return status 0"), 0, datagrams=1, shared=True),
        rdma_cm("rstream", "rstream -T b -S 64 -C 100", "rstream -T b -S 64 -C 100 -s {}", judges.both_say("custom"),
                shared=True),
        rdma_cm("rstream_verify", "rstream -T v -S 4096 -C 100", "rstream -T v -S 4096 -C 100 -s {}",
                judges.both_say("custom")),
        rdma_cm("rstream_nonblocking", "rstream -T n -S 4096 -C 100", "rstream -T n -S 4096 -C 100 -s {}",
                judges.both_say("custom")),
        rdma_cm("riostream", "riostream -T v -S 4096 -C 100", "riostream -T v -S 4096 -C 100 -s {}",
                judges.both_say("custom"), shared=True),
        tcp_over_rsockets(),
        mckey(),
        fio(),
        iser(),
        ucx_by_cm(),
        rdma_cm("cmtime", "cmtime", "cmtime -c 1000 -s {}", judges.client_says("disconnect"), 1000, endless=True),
    ],
    "rdmacm_perftest": [
        *(perftest_by_cm(op, "bw") for op in ("send", "write", "read")),
        perftest_by_cm("atomic", "bw", size=None),
        *(perftest_by_cm(op, "lat") for op in ("send", "write", "read")),
        perftest_by_cm("atomic", "lat", size=None),
        perftest_by_cm("send", "bw", "-q 4", connections=5, iterations=400),
        perftest_by_cm("send", "bw", "-c UD", size=1000, connections=1, datagrams=1),
        perftest_by_cm("send", "bw", "-c UD", size=1000, connections=1, datagrams=1)._replace(
            name="cm_send_bw_c_ud_shared", shared=True),
    ],
    "qperf": [
        qperf("rc_lat rc_bw rc_bi_bw uc_lat uc_bw ud_lat ud_bw"),
        qperf("rc_rdma_write_lat rc_rdma_write_bw rc_rdma_read_lat rc_rdma_read_bw uc_rdma_write_lat uc_rdma_write_bw"),
        qperf("rc_fetch_add_mr rc_compare_swap_mr ver_rc_fetch_add ver_rc_compare_swap"),
        # Its server crashes at the end of each test (0.4.11), and the client has to be told.
        qperf("rc_lat", "rdma_cm", "-cm 1"),
    ],
}
