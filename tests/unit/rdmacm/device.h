// SPDX-License-Identifier: Apache-2.0
// Commands to RDMA CM as a library writes them, one function each. All return 0 or an errno value.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verbs/rdmacm/channel.h"

namespace uroce::rdmacm {

/// Addresses of the two NICs of the tests.
inline constexpr const char* kFirst = "127.0.0.31";
inline constexpr const char* kSecond = "127.0.0.32";

/// Events, as librdmacm numbers them.
enum : std::uint32_t {
  kResolved = 0,
  kAddressError = 1,
  kRouted = 2,
  kRouteError = 3,
  kRequest = 4,
  kResponse = 5,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kRemoval = 11,
  kTimewaitExit = 15,
  kUser = 18
};

class Device {
 public:
  explicit Device(int flags = 0);
  ~Device() { close(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  int fd() const { return fd_; }
  void close();
  /// The descriptor is closed already.
  void forget();

  /// The bytes as they are.
  int write(const void* bytes, std::size_t size);
  template <class Body>
  int command(std::uint32_t number, const Body& body, std::size_t out = 0) {
    std::vector<std::uint8_t> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof body);
    const rdma_ucm_cmd_hdr header{.cmd = number, .in = static_cast<__u16>(sizeof body), .out = static_cast<__u16>(out)};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
    return write(bytes.data(), bytes.size());
  }

  int create(std::uint32_t& id, std::uint16_t space = RDMA_PS_TCP, std::uint64_t uid = 1111,
             std::size_t out = sizeof(rdma_ucm_create_id_resp), std::uint8_t qp_type = 2);
  /// One that must work.
  std::uint32_t made(std::uint16_t space = RDMA_PS_TCP, std::uint64_t uid = 1111);
  int destroy(std::uint32_t id, std::uint32_t* reported = nullptr);
  int bind(std::uint32_t id, const std::string& address, std::uint16_t port);
  int resolve(std::uint32_t id, const std::string& from, const std::string& to, std::uint16_t port = 7);
  int route(std::uint32_t id, std::uint32_t timeout_ms = 100);
  int listen(std::uint32_t id, std::uint32_t backlog = 0);
  int connect(std::uint32_t id, std::uint8_t private_data = 0, bool valid = true);
  int accept(std::uint32_t id, std::uint64_t uid, std::uint8_t private_data = 0, bool valid = true);
  int reject(std::uint32_t id, std::uint8_t reason = 0, std::uint8_t private_data = 0);
  int disconnect(std::uint32_t id);
  int notify(std::uint32_t id, std::uint32_t event);
  int option(std::uint32_t id, std::uint32_t level, std::uint32_t name, std::uint32_t size, std::uint32_t value = 1);
  int migrate(std::uint32_t id, int from, std::uint32_t* reported = nullptr);
  int join(std::uint32_t id, const std::string& group, std::uint16_t flags, std::uint32_t* number = nullptr);
  int leave(std::uint32_t number, std::uint32_t* reported = nullptr);
  int query(std::uint32_t id, rdma_ucm_query_route_resp& out, std::size_t out_size = sizeof(rdma_ucm_query_route_resp));
  int attributes(std::uint32_t id, std::uint32_t state, ib_uverbs_qp_attr& out,
                 std::size_t out_size = sizeof(ib_uverbs_qp_attr));
  /// Raises kUser.
  int raise(std::uint32_t id);
  int event(rdma_ucm_event_resp& out, std::size_t out_size = sizeof(rdma_ucm_event_resp));
  /// The next event, which has to come.
  rdma_ucm_event_resp next();
  bool is_readable(int timeout_ms = 0) const;

 private:
  int fd_ = -1;
  std::shared_ptr<Channel> channel_;
};

}  // namespace uroce::rdmacm
