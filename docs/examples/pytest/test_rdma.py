"""Tests of RDMA programs, without RDMA hardware."""
import pytest

BANDWIDTH = ["ib_write_bw", "-x", "1", "-F", "-n", "100"]


def test_programs_meet(uroce_pair):
    _, printed = uroce_pair.run(BANDWIDTH, [*BANDWIDTH, "127.0.0.1"])
    assert "65536      100" in printed


@pytest.mark.uroce_faults("loss=1%")
def test_losses_do_not_matter(uroce_pair):
    uroce_pair.run(["ibv_rc_pingpong", "-g", "1", "-c"], ["ibv_rc_pingpong", "-g", "1", "-c", "127.0.0.1"])


def test_a_fault_while_the_server_runs(uroce_nic):
    nic = uroce_nic(control="on")
    with nic.start(BANDWIDTH) as server:
        nic.control(server, "faults rx.drop=op:write_first#1")
        uroce_nic().run([*BANDWIDTH, "127.0.0.1"])


def test_what_happens_without_a_device(uroce_nic):
    printed = uroce_nic(faults="call=ibv_open_device#1:EIO").run(["ibv_rc_pingpong", "-g", "1"], status=1)
    assert "Couldn't get context" in printed
