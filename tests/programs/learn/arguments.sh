#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lessons with an argument refuse one that means nothing, before they look for a device: arguments.sh FOLDER_OF_THE_LESSONS
refused() { # refused TEXT LESSON ARGUMENT...
  text=$1 lesson=$2
  shift 2
  said=$("$folder/$lesson" "$@" 2>&1)
  status=$?
  case $status:$said in
    2:*"$text"*) ;;
    *) echo "FAILED: $lesson $* ended with $status: $said"; exit 1 ;;
  esac
}

folder=$1
for index in x '' 1x -1 256; do refused 'usage: 44_wrong_gid_index INDEX' 44_wrong_gid_index "$index"; done
refused 'usage: 44_wrong_gid_index INDEX' 44_wrong_gid_index
for address in nosuch '' 127.1 ::1; do refused "'$address' is no IPv4 address" 30_rdma_cm "$address"; done
refused 'usage: 30_rdma_cm ADDRESS' 30_rdma_cm
