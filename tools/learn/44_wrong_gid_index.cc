// Lesson 44: GID index 0. The link-local address is there, programs take it because it comes first, and then nothing
// arrives. Usage: 44_wrong_gid_index INDEX
#include <arpa/inet.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "tools/learn/verbs.h"

int main(int argc, char** argv) {
  const std::string_view given = argc == 2 ? argv[1] : "";
  std::uint8_t index = 0;  // As in ibv_global_route.
  const auto [rest, error] = std::from_chars(given.data(), given.data() + given.size(), index);
  if (error != std::errc() || rest != given.data() + given.size()) {
    std::fprintf(stderr, "usage: 44_wrong_gid_index INDEX (0 to 255)\n");
    return 2;
  }
  learn::Nic nic_a(0), nic_b(1);
  for (learn::Nic* nic : {&nic_a, &nic_b}) {
    if (ibv_query_gid(nic->context, 1, index, &nic->gid) != 0) {  // An older verb: -1, and the reason in errno.
      std::perror("ibv_query_gid");
      return 1;
    }
    nic->gid_index = index;
  }
  char text[INET6_ADDRSTRLEN];
  std::printf("alice's GID %d is %s\n", index, inet_ntop(AF_INET6, nic_a.gid.raw, text, sizeof text));

  learn::Endpoint alice(nic_a), bob(nic_b);
  learn::connect(nic_a, alice, nic_b, bob, {.timeout = 10, .retry_cnt = 2});  // 4.2 ms, three times
  std::printf("every transition succeeds: nobody looks for the peer before the first packet\n");
  bob.post_recv(11, 64);
  alice.post(IBV_WR_SEND, 1, 16);
  learn::print("alice", learn::wait(alice.cq));
}
