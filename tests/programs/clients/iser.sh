#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# iser.sh: a disk that tgtd serves over iSER (iSCSI by RDMA), written and read by libiscsi's tools. Says ok at the end.
set -eu
target=iqn.2026-01.org.uroce:disk initiator=iqn.2026-01.org.uroce:user
disk=iser://127.0.0.1/$target/1
control=$((20000 + $$ % 10000))  # tgtadm finds tgtd at /run/tgtd/socket.$control.
folder=$(mktemp -d)
tgtd --foreground --control-port $control >"$folder/log" 2>&1 &
server=$!
trap 'kill -KILL $server; rm -rf "$folder" /run/tgtd/socket.$control*' EXIT

admin() { tgtadm --control-port $control --lld iser "$@"; }
for _ in {1..50}; do
  ! admin --op show --mode target 2>/dev/null || break
  sleep 0.1
done
truncate --size 16M "$folder/disk"
admin --op new --mode target --tid 1 --targetname $target
admin --op new --mode logicalunit --tid 1 --lun 1 --backing-store "$folder/disk"
# This tgtd lets nobody in over iSER whose address and name it does not have.
admin --op bind --mode target --tid 1 --initiator-address ALL
admin --op bind --mode target --tid 1 --initiator-name $initiator

iscsi-inq --initiator-name=$initiator $disk | grep -q VIRTUAL-DISK
# It writes 0xa6, reads it, and has tgtd compare that with the disk.
# libiscsi 1.19 reads memory that it has allocated and never written, and crashes where that is not zero by chance: with
# 255, glibc has it be zero.
for test in Write10 Verify10; do
  MALLOC_PERTURB_=255 iscsi-test-cu --initiator-name=$initiator --dataloss --test=ALL.$test.Simple $disk | grep -q passed
done
[ "$(head -c 64K "$folder/disk" | tr -d '\246' | wc -c)" = 0 ]
echo ok
