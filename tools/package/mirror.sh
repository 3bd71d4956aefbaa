# SPDX-License-Identifier: Apache-2.0
# Sourced by what needs packages of a distribution: where apt of this machine gets Debian's from.
# shellcheck shell=bash

# debian_mirror: prints the address of the mirror of the running distribution, as apt is configured.
debian_mirror() {
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Component: main' | awk '/debian\/?$/ && !/security/' | head -n 1
}
