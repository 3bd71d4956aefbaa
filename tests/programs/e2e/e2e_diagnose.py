# SPDX-License-Identifier: Apache-2.0
"""uroce diagnose: which GID index it names, and whether the commands that it prints work."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import run_pair
from run_pair import Skip, Tool, check, need_namespaces


def diagnose(*arguments, program=None, command="diagnose"):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    done = subprocess.run([program or run_pair.BIN / "uroce", command, *arguments], env=environment,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def card(sys, gids, link_layer="Ethernet", state="4: ACTIVE", mtu=1500):
    """A tree like that of a card. gids: (address, type) by index."""
    port = sys / "class/infiniband/mlx5_0/ports/1"
    write(port / "state", state)
    write(port / "link_layer", link_layer)
    write(port / "rate", "100 Gb/sec (4X EDR)")
    for index in range(12):  # Two digits as well; the rest of the table is empty.
        address, kind = gids[index] if index < len(gids) else ("0000:" * 7 + "0000", "")
        write(port / "gids" / str(index), address)
        write(port / "gid_attrs/types" / str(index), kind)
        write(port / "gid_attrs/ndevs" / str(index), "eth7" if kind else "")
    write(sys / "class/net/eth7/mtu", str(mtu))


@contextlib.contextmanager
def tree_without_devices():
    """As that of a kernel without RDMA."""
    with tempfile.TemporaryDirectory() as sys:
        (pathlib.Path(sys) / "class").mkdir()
        yield sys


LOCAL, V4, V6 = "fe80:0000:0000:0000:0000:0000:0000:0001", "0000:0000:0000:0000:0000:ffff:c000:0207", "2001:0db8:0000:0000:0000:0000:0000:0007"


def scenario_diagnose_of_a_tree():
    """The index of a card is found, whatever the table looks like."""
    v1, v2 = "IB/RoCE v1", "RoCE v2"
    for gids, index, words in (
            ([(LOCAL, v1), (LOCAL, v2), (V4, v1), (V4, v2)], 3, "RoCE v2 over IPv4  <- take this index"),
            ([(LOCAL, v1), (LOCAL, v2), (V6, v1), (V6, v2)], 3, "RoCE v2 over IPv6  <- take this index"),
            ([(V6, v2), (V4, v2)], 1, "RoCE v2 over IPv4  <- take this index"),
            ([(LOCAL, v1), (LOCAL, v2)], None, "no GID with an address")):
        with tempfile.TemporaryDirectory() as directory:
            card(pathlib.Path(directory), gids)
            status, text = diagnose("--sys", directory)
            check(status == 0, text)
            check("mlx5_0 port 1: ACTIVE, Ethernet (RoCE), 100 Gb/sec (4X EDR), eth7 with MTU 1500: path MTU up to 1024" in text, text)
            check(words in text, text)
            command = f"rdma_server --backend ibverbs --device mlx5_0 --ib-port 1 --gid-index {index}"
            check((command in text) == (index is not None), text)
    with tempfile.TemporaryDirectory() as directory:
        card(pathlib.Path(directory), [(V4, v2)], state="1: DOWN", mtu=4200)
        text = diagnose("--sys", directory)[1]
        check("BAD   mlx5_0 port 1: DOWN" in text and "path MTU up to 4096" in text and "--device mlx5_0" not in text, text)
    with tempfile.TemporaryDirectory() as directory:
        card(pathlib.Path(directory), [(LOCAL, "IB/RoCE v1")], link_layer="InfiniBand")
        check("InfiniBand  <- take this index" in diagnose("--sys", directory)[1], "InfiniBand")


def scenario_diagnose_of_a_bad_tree():
    """What is no copy of /sys, or not all of one, is named. Nothing of this machine is mixed in."""
    with tempfile.TemporaryDirectory() as directory:
        status, text = diagnose("--sys", directory)
        check(status == 1 and f"BAD   {directory} has no directory class" in text and "none" not in text, text)
        write(pathlib.Path(directory) / "class/infiniband", "a file")
        status, text = diagnose("--sys", directory)
        check(status == 1 and f"BAD   {directory}/class/infiniband can't be read: Not a directory" in text, text)
    with tempfile.TemporaryDirectory() as directory:
        card(pathlib.Path(directory), [(V4, "RoCE v2")], state="4: \033[31mACTIVE\033]0;x\007")
        devices = pathlib.Path(directory) / "class/infiniband"
        (devices / "mlx5_1").symlink_to("../../devices/mlx5_1")  # As `cp -r` leaves it.
        (devices / "mlx5_2/ports").mkdir(parents=True)
        text = diagnose("--sys", directory)[1]
        check("\033" not in text and "\007" not in text and "mlx5_0 port 1: \\x1b[31mACTIVE\\x1b]0;x\\x07" in text, repr(text))
        check(f"BAD   mlx5_1: no port ({devices}/mlx5_1/ports: No such file or directory)" in text and "cp -rL" in text, text)
        check(f"BAD   mlx5_2: no port ({devices}/mlx5_2/ports is empty)" in text, text)
        for word in ("kernel modules", "RDMA CM", "locked memory", "firewall:", "TCP port", "this machine", "work here"):
            check(word not in text, f"{word}\n{text}")


def scenario_diagnose_commands():
    """As printed, on the machine's own /sys."""
    with tree_without_devices() as sys:
        status, text = diagnose("--sys", sys)
    check(status == 0 and f"RDMA devices of {sys}: none" in text and f"{sys}/class/infiniband has no device" in text, text)
    pairs = re.findall(r"^  server: (.*)\n  client: (.*)$", text, re.MULTILINE)
    check(len(pairs) == 2, text)
    if subprocess.run(["which", "ibv_rc_pingpong"], capture_output=True, check=False).returncode != 0:
        raise Skip("ibv_rc_pingpong is not installed")
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith("UROCE_")},
                   "PATH": f"{run_pair.BIN}:{os.environ['PATH']}"}
    for server, client in pairs:
        # Started together: both tools and pingpong's server need a moment until they listen.
        again = "for i in 1 2 3 4 5 6 7 8 9 10; do " + client + " && exit 0; sleep 0.2; done; exit 1"
        with subprocess.Popen(server.split(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                done = subprocess.run(["sh", "-c", again], env=environment, capture_output=True, text=True, timeout=60, check=False)
                check(done.returncode == 0, f"{client}\n{done.stdout}{done.stderr}")
                check(process.wait(30) == 0, f"{server}\n{process.stdout.read()}")
            finally:
                process.kill()


def scenario_folder_with_a_space():
    """The loader can't preload a library from there: doctor and diagnose say what `uroce run` says."""
    with tempfile.TemporaryDirectory(prefix="with a space ") as directory:
        for file in ("bin/uroce", "bin/uroce-broker", "lib/libibverbs.so.1"):
            (pathlib.Path(directory) / file).parent.mkdir(exist_ok=True)
            shutil.copy(run_pair.BIN.parent / file, pathlib.Path(directory) / file)
        program = pathlib.Path(directory) / "bin/uroce"
        words = f"the loader can't preload {directory}/lib/libibverbs.so.1: there is a space"
        status, text = diagnose("--", "true", program=program, command="run")
        check(status != 0 and words in text, text)
        status, text = diagnose(program=program, command="doctor")
        check(status == 1 and f"BAD   library: {words}" in text and "-> build or install uroce in another folder" in text, text)
        with tree_without_devices() as sys:
            text = diagnose("--sys", sys, program=program)[1]
        check(f"BAD   uroce run: {words}" in text and "server: rdma_server" in text and "uroce run --" not in text, text)


def scenario_privileged_port():
    """Port 4791 may be for root only: doctor and programs say so, and what to do."""
    need_namespaces()
    pathlib.Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("5000")
    as_user = ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]
    words = ("can't use 127.0.0.1:4791 (UDP): Permission denied; here ports below 5000 are for root only: sysctl -w "
             "net.ipv4.ip_unprivileged_port_start=4791, or run this as root")
    doctor = Tool("uroce", ["doctor"], launcher=as_user)
    check(doctor.finish() == 1, "status", doctor, doctor.stdout)
    check(f"BAD   addresses: {words}" in doctor.stdout and "in use" not in doctor.stdout, doctor.stdout)
    for options in ([], ["--addr", "127.0.0.1"]):
        server = Tool("rdma_server", ["--num-qp", 1, *options], launcher=as_user)
        check(server.finish() != 0 and words in server.stderr, server, server.stderr)
