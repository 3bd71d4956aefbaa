// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rdmacm/device.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/address.h"
#include "verbs/rdmacm/commands.h"
#include "verbs/rdmacm/front.h"
#include "verbs/rdmacm/socket_address.h"

namespace uroce::rdmacm {
namespace {

/// Before any device is asked for.
const int kEnvironment =
    ::setenv("UROCE_ADDR", (std::string(kFirst) + ';' + kSecond).c_str(), 1) | ::setenv("UROCE_BROKER", "off", 1);

template <class T>
std::uint64_t address_of(T& value) {
  return reinterpret_cast<std::uintptr_t>(&value);
}

template <class Sockaddr>
void put(const std::string& text, std::uint16_t port, Sockaddr& to) {
  const auto gid = proto::parse_gid(text);
  if (!gid) return;  // "": no address.
  write_address(socket_address(*gid, port), &to);
}

}  // namespace

Device::Device(int flags) : fd_(Front::get().open_channel(flags)) {
  static_cast<void>(kEnvironment);
  channel_ = Front::get().channel_with(pipe_behind(fd_).value());
}

void Device::close() {
  if (fd_ < 0) return;
  ::close(fd_);
  fd_ = -1;
  Front::get().copy_closed(channel_);
}

void Device::forget() {
  fd_ = -1;
  channel_.reset();
}

int Device::write(const void* bytes, std::size_t size) {
  const ssize_t written = execute(channel_, fd_, bytes, size);
  if (written >= 0) {
    EXPECT_EQ(static_cast<std::size_t>(written), size);
  }
  return written < 0 ? errno : 0;
}

int Device::create(std::uint32_t& id, std::uint16_t space, std::uint64_t uid, std::size_t out, std::uint8_t qp_type) {
  return command(
      RDMA_USER_CM_CMD_CREATE_ID,
      rdma_ucm_create_id{.uid = uid, .response = address_of(id), .ps = space, .qp_type = qp_type, .reserved = {}}, out);
}

std::uint32_t Device::made(std::uint16_t space, std::uint64_t uid) {
  std::uint32_t id = 0;
  EXPECT_EQ(create(id, space, uid), 0);
  return id;
}

int Device::destroy(std::uint32_t id, std::uint32_t* reported) {
  std::uint32_t count = 77;
  const int error = command(RDMA_USER_CM_CMD_DESTROY_ID,
                            rdma_ucm_destroy_id{.response = address_of(count), .id = id, .reserved = 0}, sizeof count);
  if (reported != nullptr) *reported = count;
  return error;
}

int Device::bind(std::uint32_t id, const std::string& address, std::uint16_t port) {
  rdma_ucm_bind_ip in{};
  put(address, port, in.addr);
  in.id = id;
  return command(RDMA_USER_CM_CMD_BIND_IP, in);
}

int Device::resolve(std::uint32_t id, const std::string& from, const std::string& to, std::uint16_t port) {
  rdma_ucm_resolve_ip in{};
  put(from, 0, in.src_addr);
  put(to, port, in.dst_addr);
  in.id = id;
  in.timeout_ms = 100;
  return command(RDMA_USER_CM_CMD_RESOLVE_IP, in);
}

int Device::route(std::uint32_t id, std::uint32_t timeout_ms) {
  return command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = id, .timeout_ms = timeout_ms});
}

int Device::listen(std::uint32_t id, std::uint32_t backlog) {
  return command(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = backlog});
}

int Device::connect(std::uint32_t id, std::uint8_t private_data, bool valid) {
  rdma_ucm_connect in{};
  in.id = id;
  in.conn_param.qp_num = 0x100 + id;
  in.conn_param.private_data_len = private_data;
  in.conn_param.responder_resources = 3;
  in.conn_param.initiator_depth = 2;
  in.conn_param.retry_count = 6;
  in.conn_param.rnr_retry_count = 5;
  in.conn_param.valid = valid ? 1 : 0;
  std::memset(in.conn_param.private_data, 'c', private_data);
  return command(RDMA_USER_CM_CMD_CONNECT, in);
}

int Device::accept(std::uint32_t id, std::uint64_t uid, std::uint8_t private_data, bool valid) {
  rdma_ucm_accept in{};
  in.uid = uid;
  in.id = id;
  in.conn_param.qp_num = 0x200 + id;
  in.conn_param.private_data_len = private_data;
  in.conn_param.responder_resources = 1;
  in.conn_param.initiator_depth = 1;
  in.conn_param.rnr_retry_count = 4;
  in.conn_param.valid = valid ? 1 : 0;
  std::memset(in.conn_param.private_data, 'a', private_data);
  return command(RDMA_USER_CM_CMD_ACCEPT, in);
}

int Device::reject(std::uint32_t id, std::uint8_t reason, std::uint8_t private_data) {
  rdma_ucm_reject in{};
  in.id = id;
  in.reason = reason;
  in.private_data_len = private_data;
  std::memset(in.private_data, 'r', private_data);
  return command(RDMA_USER_CM_CMD_REJECT, in);
}

int Device::disconnect(std::uint32_t id) { return command(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{.id = id}); }

int Device::notify(std::uint32_t id, std::uint32_t event) {
  return command(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{.id = id, .event = event});
}

int Device::option(std::uint32_t id, std::uint32_t level, std::uint32_t name, std::uint32_t size, std::uint32_t value) {
  std::vector<std::uint8_t> memory(256);
  std::memcpy(memory.data(), &value, sizeof value);
  return command(RDMA_USER_CM_CMD_SET_OPTION,
                 rdma_ucm_set_option{.optval = reinterpret_cast<std::uintptr_t>(memory.data()),
                                     .id = id,
                                     .level = level,
                                     .optname = name,
                                     .optlen = size});
}

int Device::migrate(std::uint32_t id, int from, std::uint32_t* reported) {
  std::uint32_t count = 77;
  const int error = command(
      RDMA_USER_CM_CMD_MIGRATE_ID,
      rdma_ucm_migrate_id{.response = address_of(count), .id = id, .fd = static_cast<__u32>(from)}, sizeof count);
  if (reported != nullptr) *reported = count;
  return error;
}

int Device::join(std::uint32_t id, const std::string& group, std::uint16_t flags, std::uint32_t* number) {
  rdma_ucm_join_mcast in{};
  std::uint32_t made = 77;
  in.response = address_of(made);
  in.uid = 2222;
  in.id = id;
  put(group, 0, in.addr);
  in.addr_size = in.addr.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  in.join_flags = flags;
  const int error = command(RDMA_USER_CM_CMD_JOIN_MCAST, in, sizeof made);
  if (number != nullptr) *number = made;
  return error;
}

int Device::leave(std::uint32_t number, std::uint32_t* reported) {
  std::uint32_t count = 77;
  const int error =
      command(RDMA_USER_CM_CMD_LEAVE_MCAST,
              rdma_ucm_destroy_id{.response = address_of(count), .id = number, .reserved = 0}, sizeof count);
  if (reported != nullptr) *reported = count;
  return error;
}

int Device::query(std::uint32_t id, rdma_ucm_query_route_resp& out, std::size_t out_size) {
  out = {};
  return command(RDMA_USER_CM_CMD_QUERY_ROUTE, rdma_ucm_query{.response = address_of(out), .id = id, .option = 0},
                 out_size);
}

int Device::attributes(std::uint32_t id, std::uint32_t state, ib_uverbs_qp_attr& out, std::size_t out_size) {
  out = {};
  return command(RDMA_USER_CM_CMD_INIT_QP_ATTR,
                 rdma_ucm_init_qp_attr{.response = address_of(out), .id = id, .qp_state = state}, out_size);
}

int Device::raise(std::uint32_t id) {
  constexpr std::uint32_t kWriteCmEvent = 24;
  const struct {
    std::uint32_t id, reserved, event, status;
    std::uint64_t argument;
  } body{id, 0, kUser, 0, 0};
  return command(kWriteCmEvent, body);
}

int Device::event(rdma_ucm_event_resp& out, std::size_t out_size) {
  return command(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = address_of(out)}, out_size);
}

rdma_ucm_event_resp Device::next() {
  rdma_ucm_event_resp out{};
  constexpr int kLong = 10'000;
  EXPECT_TRUE(is_readable(kLong)) << "no event comes";
  if (is_readable()) {
    EXPECT_EQ(event(out), 0);
  }
  return out;
}

bool Device::is_readable(int timeout_ms) const {
  pollfd look{fd_, POLLIN, 0};
  return ::poll(&look, 1, timeout_ms) == 1;
}

}  // namespace uroce::rdmacm
