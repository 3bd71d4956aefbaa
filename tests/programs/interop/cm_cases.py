# SPDX-License-Identifier: Apache-2.0
"""What cm_pair.py runs: programs that connect by RDMA CM, what the wire does to their messages, and what cannot be.
(Import rxe_pair first: it says where the folders of other modules are.)"""

import judges
import matrix

# They need more than the guest has, or the host; mckey has no peer that it connects to.
NOT_HERE = {"cm_rcopy", "cm_fio", "cm_ucx_io_demo", "cm_rping_lost_end", "iser", "cm_iperf", "cm_mckey"}
CASES = {case.name.removeprefix("cm_"): case for group in ("rdmacm", "rdmacm_perftest") for case in matrix.GROUPS[group]
         if case.name not in NOT_HERE and not case.name.endswith("_shared")}
CASES |= {
    "cmtime_50": CASES["cmtime"]._replace(to="-c 50 -s {}"),
    "ucmatose_tos": CASES["ucmatose"]._replace(server="ucmatose -t 40", to="-t 40 -s {}"),
    "ucmatose_ack_timeout": CASES["ucmatose"]._replace(server="ucmatose -a 20", to="-a 19 -s {}"),
    "rping_dual": CASES["rping_any"]._replace(server="rping -s -a ::0 -v -C 3"),
    "rping_own_qp": CASES["rping"]._replace(server="rping -s -q -a {} -v -C 10", to="-c -q -a {} -v -C 10"),
    "rping_again_and_again": matrix.rdma_cm(
        "again_and_again", "rping -s -P -a {}", "sh -c 'for i in $(seq 50); do rping -c -a {} -C 1 || exit 1; done'",
        judges.nothing_wrong, 50, endless=True),
    # Processes that share an address: four clients at once, and two servers. rping -P forgets a request when the next one
    # comes before it has looked, with the kernel on both sides too: so they do not begin in the same moment.
    "rping_side_by_side": matrix.rdma_cm(
        "side_by_side", "rping -s -P -a {}",
        "sh -c 'for i in 1 2 3 4; do sleep 0.7; rping -c -a {} -C 50 & all=\"$all $!\"; done; "
        "for i in $all; do wait $i || exit 1; done'",
        judges.nothing_wrong, 4, endless=True),
    "rping_two_servers": matrix.rdma_cm(
        "two_servers", "sh -c 'rping -s -P -a {} & rping -s -P -p 7175 -a {} & wait'",
        "sh -c 'rping -c -a {} -C 50 & other=$!; rping -c -a {} -p 7175 -C 50 && wait $other'", judges.nothing_wrong, 2,
        endless=True),
    "rping_endless": matrix.rdma_cm("endless", "rping -s -a {} -v", "rping -c -a {} -v", judges.nothing_wrong),
    # -T a has a race: its client fails when the server has closed already, with the kernel on both sides too.
    "rstream_all": CASES["rstream"]._replace(server="rstream -T n -S all -C 10", to="-T n -S all -C 10 -s {}"),
    # A request that nobody wants; the program at the other port only has a NIC.
    "refused": matrix.rdma_cm("refused", "rping -s -a {} -p 7175", "sh -c '! rping -c -a {} -C 1'",
                              judges.client_says("RDMA_CM_EVENT_REJECTED, error 8"), 0, endless=True),
}
ONLY_KILLED = "rping_endless"
# Between its connections perftest's server listens anew, and its client does not wait for it; the guest is slow.
PATIENCE = "delay=req#2x4:1500", "delay=sidr-req:1500"
# What makes servers that listen on all IPv4 addresses speak IPv6. Those of perftest cannot.
TO_SPEAK_IPV6 = {"ucmatose": "-b {}", "udaddy": "-b {}", "rstream": "-b {}", "riostream": "-b {}", "cmtime": "-b {}",
                 "rdma_server": "-s {}", "rping": "-a ::0"}
IPV4_ONLY = {"xclient_xserver", "rping_dual"}
# Which program says what. rping's client disconnects, and ucmatose's server.
MESSAGES = {"rping_any": ("req", "rep", "rtu", "dreq", "drep"), "ucmatose_migrate": ("dreq", "drep"),
            "udaddy": ("sidr-req", "sidr-rep"), "refused": ("rej",)}
# Messages are repeated after 4.1 or 4.6 s.
FAULTS = ("drop={}", "drop={}:2", "dup={}", "delay={}:300", "delay={}:5000")
FAULTS_OVER_IPV6 = ("drop={}", "dup={}", "delay={}:5000")
# Old messages, while data flow, in timewait, which lasts half a second, and behind it.
OLD_MESSAGES = [*(("rping_any", f"dup={message}:150,delay=read:400") for message in ("req", "rep", "rtu")),
                *(("rping_persistent", f"dup={message}:{ms}") for message in ("dreq", "drep") for ms in (200, 1000))]
# The answer to a message that came twice is lost, or an answer and then a question.
TWICE = ("dup=req,drop=mra", "dup=rep,drop=mra", "drop=rep:2,drop=req#2", "drop=rtu,drop=rep#2", "drop=dreq,drop=drep",
         "dup=cm#1x*", "delay=cm#1x*:50")
# What cannot be with the kernel on the other side. It forgets the DREQ of an id that is destroyed, as rping's client does at
# once: our server would wait for ever. Our server takes the first data for a lost RTU, so no REP is repeated. And the kernel's
# server, when its SIDR_REP comes late or never, takes the repeated request for another one, which udaddy refuses.
NOT_IN_ROLE = {"server": {("rping_any", wire) for wire in ("drop=dreq", "drop=dreq:2", "drop=dreq,drop=drep",
                                                           "drop=rtu,drop=rep#2")},
               "client": {("udaddy", wire.format("sidr-rep")) for wire in ("drop={}", "drop={}:2", "delay={}:5000")}}
# Many connections, and whatever happens to their messages and data.
BY_CHANCE = ("drop=5%", "dup=10%:30", "delay=10%:100", "drop=5%,dup=5%,reorder=5%:4,corrupt=2%")
BY_CHANCE_OF = ("ucmatose", "cmtime_50", "rstream_verify")


def faults(role, family):
    """(name of a case, what the wire does)"""
    every = list(messages_once(family))
    if family == 4:
        every += [*OLD_MESSAGES, *(("rping_any", wire) for wire in TWICE)]
    for seed, wire in enumerate(BY_CHANCE if family == 4 else BY_CHANCE[-1:], 1):
        every += [(name, f"seed={seed},{wire}") for name in BY_CHANCE_OF]
    return [fault for fault in every if fault not in NOT_IN_ROLE[role]]


def messages_once(family):
    for name, said in MESSAGES.items():
        for fault in FAULTS if family == 4 else FAULTS_OVER_IPV6:
            yield from ((name, fault.format(message)) for message in said)


def plain(role, family):
    """(name of a case, what the wire does), for the cases without faults."""
    for name, case in CASES.items():
        is_perftest = case.command.startswith("ib_")
        if name == ONLY_KILLED or (family == 6 and (is_perftest or name in IPV4_ONLY)):
            continue
        yield name, PATIENCE[name.endswith("_c_ud")] if is_perftest and role == "client" else ""
