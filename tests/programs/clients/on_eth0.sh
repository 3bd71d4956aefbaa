#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_eth0.sh COMMAND...: runs it on a NIC with the IPv4 address of eth0, whichever that is on this host.
address=$(ip -4 -o addr show dev eth0 | sed 's|.*inet \([0-9.]*\)/.*|\1|')
exec uroce run --addr "$address" -- "$@"
