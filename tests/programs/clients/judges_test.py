#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judges of judges.py let good output pass and object to what a failing program prints."""

import unittest

import judges

PINGPONG = "819200 bytes in 0.01 seconds = 1025.03 Mbit/sec\n200 iters in 0.01 seconds = 31.97 usec/iter\n"
BANDWIDTH = """\
 local address: LID 0000 QPN 0x0011 PSN 0x6c3b2a
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          100              0.00               0.00\t\t   0.000021
 4          100              0.11               0.10\t\t   0.051111
---------------------------------------------------------------------------------------
"""
LATENCY = """\
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]
 8       100          9.99           73.40        12.13    \t       14.20            6.04   \t\t31.22
"""
QPERF = "rc_lat:\n    latency  =  12.3 us\nver_rc_fetch_add:\n    msg_rate  =  84 K/sec\n"


UCX = "tag_lat_8                30     11.035    16.268    16.268        0.47       0.47       61470       61470\n"
LIBFABRIC = "bytes   #sent   #ack     total\n64      10      =10      1.2k   0.06s\n1m      10      =10      20m   1.22s\n"
FIO_CLIENT = "send: (groupid=0, jobs=1): err= 0: pid=7\n     issued rwts: total=0,64,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
FIO_SERVER = FIO_CLIENT.replace("0,64,0,0 ", "64,0,0,0 ")


class Judges(unittest.TestCase):
    def objects(self, judge, *outputs):
        with self.assertRaises(AssertionError):
            judge(*outputs)

    def test_pingpong(self):
        judge = judges.pingpong(200)
        judge(PINGPONG, PINGPONG)
        self.objects(judge, PINGPONG, "")
        self.objects(judge, PINGPONG, PINGPONG + "invalid data in page 0\n")
        self.objects(judges.pingpong(300), PINGPONG, PINGPONG)

    def test_ucx_perftest(self):
        judges.ucx_perftest(["tag_lat_8"])(UCX)
        self.objects(judges.ucx_perftest(["tag_lat_8", "put_bw"]), UCX)
        self.objects(judges.ucx_perftest(["tag_lat_8"]), UCX.replace("61470\n", "0\n"))

    def test_fi_pingpong(self):
        judge = judges.fi_pingpong(["64", "1m"])
        judge(LIBFABRIC, LIBFABRIC)
        self.objects(judge, LIBFABRIC, LIBFABRIC.replace("1m", "2m"))
        self.objects(judge, LIBFABRIC, LIBFABRIC.replace("=10      20m", "=9       20m"))

    def test_io_demo(self):
        report = "[1.5] [DEMO] total min:5 max:5 total:5 | read 0.8 MBs\n"
        client = 2 * report + "[1.6] [DEMO] Client exit with status 'OK'\n"
        judges.io_demo(10)(client, "")
        self.objects(judges.io_demo(11), client, "")
        self.objects(judges.io_demo(10), client.replace("OK", "timeout"), "")
        self.objects(judges.io_demo(10), client, "io msg data corruption (5) at 7\n")

    def test_mckey(self):
        one = "data transfers complete\ntest complete\nreturn status 0\n"
        judge = judges.mckey(2)
        judge(one, one + one)
        self.objects(judge, one, one)
        self.objects(judge, one, one + one.replace("status 0", "status -1"))
        self.objects(judge, "return status 0\n", one + one)

    def test_fio(self):
        judge = judges.fio(["send"], 64)
        judge(FIO_CLIENT, FIO_SERVER)
        self.objects(judge, FIO_CLIENT.replace("64", "63"), FIO_SERVER)
        self.objects(judge, FIO_CLIENT, FIO_SERVER.replace("64", "63"))
        self.objects(judge, FIO_CLIENT, FIO_SERVER.replace("err= 0", "err=84"))
        self.objects(judge, FIO_CLIENT, "crc32c: verify failed at file send.0.0\n" + FIO_SERVER)

    def test_bandwidth(self):
        judges.perftest("bw", [2, 4], 100)(BANDWIDTH)
        judges.perftest("lat", [8], 100)(LATENCY.replace("6.04", "-nan"))
        self.objects(judges.perftest("bw", [2, 4, 8], 100), BANDWIDTH)
        self.objects(judges.perftest("bw", [2, 4], 101), BANDWIDTH)
        self.objects(judges.perftest("bw", [2, 4], 100), BANDWIDTH.replace("0.000021", "0.000000"))
        judges.perftest("bw", [2, 4], 100)("Correlation coefficient r^2: 0.89 < 0.9\n" + BANDWIDTH.replace("0.000021", "0.000000"))
        self.objects(judges.perftest("bw", [2, 4], 100), "Couldn't connect to 127.0.0.1:18515\n")

    def test_posting(self):
        self.objects(judges.perftest("lat", [8], 100, new_post=True), LATENCY)
        new = " ibv_wr* API     : ON\n" + LATENCY
        judges.perftest("lat", [8], 100, new_post=True)(new)
        self.objects(judges.perftest("lat", [8], 100), new)

    def test_latency(self):
        judges.perftest("lat", [8], 100)(LATENCY)
        self.objects(judges.perftest("lat", [8], 100), LATENCY.replace("12.13", "0.00"))

    def test_qperf(self):
        judges.qperf(["rc_lat", "ver_rc_fetch_add"])(QPERF)
        self.objects(judges.qperf(["rc_lat", "rc_bw"]), QPERF)
        self.objects(judges.qperf(["rc_lat"]), "rc_lat:\nfailed to modify QP to RTR\n")
        self.objects(judges.qperf(["rc_lat"]), QPERF.replace("12.3 us", "0 ns"))


if __name__ == "__main__":
    unittest.main()
