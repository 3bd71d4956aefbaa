// SPDX-License-Identifier: Apache-2.0
#include "verbs/view/rdma_netlink.h"

#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <optional>

#include "verbs/view/netlink_message.h"
#include "verbs/view/port_counters.h"

namespace uroce::view {
namespace {

constexpr std::uint32_t kPort = 1;
constexpr std::uint8_t kNodeTypeCa = 1;               // RDMA_NODE_IB_CA
constexpr std::uint8_t kActive = 4, kDown = 1;        // ib_port_state
constexpr std::uint8_t kLinkUp = 5, kDisabled = 3;    // ib_port_phys_state
constexpr std::uint8_t kSharedNetworkNamespaces = 1;  // As the kernel begins with.
/// Readers have room for a page (libmnl: MNL_SOCKET_BUFFER_SIZE).
constexpr std::size_t kFull = 3500;

struct Request {
  nlmsghdr header{};
  std::optional<std::uint32_t> device, port;
  bool of_a_resource = false;  ///< Statistics of QPs or MRs instead of a port.
};

Request parse(Bytes message) {
  Request request;
  std::memcpy(&request.header, message.data(), sizeof request.header);
  message = message.subspan(NLMSG_HDRLEN);
  while (message.size() >= NLA_HDRLEN) {
    nlattr attribute;
    std::memcpy(&attribute, message.data(), sizeof attribute);
    if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > message.size()) break;
    const int type = attribute.nla_type & NLA_TYPE_MASK;
    if (type == RDMA_NLDEV_ATTR_STAT_RES) request.of_a_resource = true;
    std::uint32_t value = 0;
    if (attribute.nla_len == NLA_HDRLEN + sizeof value) {
      std::memcpy(&value, message.data() + NLA_HDRLEN, sizeof value);
      if (type == RDMA_NLDEV_ATTR_DEV_INDEX) request.device = value;
      if (type == RDMA_NLDEV_ATTR_PORT_INDEX) request.port = value;
    }
    message = message.subspan(std::min<std::size_t>(message.size(), NLA_ALIGN(attribute.nla_len)));
  }
  return request;
}

std::uint64_t as_number(const std::array<std::uint8_t, 8>& guid) { return load_be<8>(guid.data()); }

/// Answers one request.
class Answer {
 public:
  Answer(const NicSource& source, const Request& request, std::uint32_t port_number,
         std::vector<std::vector<std::uint8_t>>& out)
      : source_(source), request_(request), port_number_(port_number), out_(out) {}

  /// 0, or what is wrong with the request.
  int give() {
    if (RDMA_NL_GET_CLIENT(request_.header.nlmsg_type) != RDMA_NL_NLDEV) return EINVAL;
    switch (RDMA_NL_GET_OP(request_.header.nlmsg_type)) {
      case RDMA_NLDEV_CMD_GET:
        return each_device([this](const NicView& nic) { device(nic); });
      case RDMA_NLDEV_CMD_PORT_GET:
        return each_port([this](const NicView& nic) { port(nic); });
      case RDMA_NLDEV_CMD_STAT_GET:
        if (request_.of_a_resource) return EOPNOTSUPP;
        return each_port([this](const NicView& nic) { statistics(nic); });
      case RDMA_NLDEV_CMD_RES_GET:
        return each_device([this](const NicView& nic) { summary(nic); });
      case RDMA_NLDEV_CMD_RES_QP_GET:
        if (!is_dump() || !request_.device) return EINVAL;  // By number: nobody asks so.
        return each_device([this](const NicView& nic) { qps(nic); });
      case RDMA_NLDEV_CMD_SYS_GET:
        system();
        return 0;
      case RDMA_NLDEV_CMD_GET_CHARDEV:
        return ENODEV;
      default:
        return EOPNOTSUPP;
    }
  }

  bool is_dump() const { return (request_.header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP; }

 private:
  /// The devices that the request names, or all for a dump.
  template <class Say>
  int each_device(Say say) {
    if (!request_.device && !is_dump()) return EINVAL;
    if (request_.device && *request_.device >= source_.count()) return ENODEV;
    for (std::uint32_t i = 0; i < source_.count(); ++i) {
      if (request_.device.value_or(i) == i) say(source_.nic(i));
    }
    return 0;
  }
  template <class Say>
  int each_port(Say say) {
    if (!is_dump() && (!request_.device || request_.port != kPort)) return EINVAL;
    return each_device(say);
  }

  NetlinkMessage begin(const NicView& nic) {
    NetlinkMessage message = begin();
    message.put_u32(RDMA_NLDEV_ATTR_DEV_INDEX, nic.index);
    message.put_string(RDMA_NLDEV_ATTR_DEV_NAME, nic.name);
    return message;
  }
  NetlinkMessage begin() {
    nlmsghdr header = request_.header;
    header.nlmsg_flags = is_dump() ? NLM_F_MULTI : 0;
    header.nlmsg_pid = port_number_;
    return NetlinkMessage(header);
  }
  void end(NetlinkMessage& message) { out_.push_back(message.finish()); }

  void device(const NicView& nic) {
    NetlinkMessage message = begin(nic);
    message.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);  // The last one.
    message.put_u64(RDMA_NLDEV_ATTR_CAP_FLAGS, 0);
    message.put_string(RDMA_NLDEV_ATTR_FW_VERSION, nic.firmware);
    message.put_u64(RDMA_NLDEV_ATTR_NODE_GUID, as_number(nic.guid));
    message.put_u64(RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, as_number(nic.guid));
    message.put_u8(RDMA_NLDEV_ATTR_DEV_NODE_TYPE, kNodeTypeCa);
    message.put_string(RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
    end(message);
  }

  void port(const NicView& nic) {
    NetlinkMessage message = begin(nic);
    message.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    message.put_u8(RDMA_NLDEV_ATTR_PORT_STATE, nic.port_up ? kActive : kDown);
    message.put_u8(RDMA_NLDEV_ATTR_PORT_PHYS_STATE, nic.port_up ? kLinkUp : kDisabled);
    if (const InterfaceView interface = source_.interfaces(nic.index).front(); interface.number != 0) {
      message.put_u32(RDMA_NLDEV_ATTR_NDEV_INDEX, interface.number);
      message.put_string(RDMA_NLDEV_ATTR_NDEV_NAME, interface.name);
    }
    end(message);
  }

  void statistics(const NicView& nic) {
    NetlinkMessage message = begin(nic);
    message.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
    message.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, [&] {
      for (const CounterRow& row : hw_counters()) {
        message.nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, [&] {
          message.put_string(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, row.name);
          message.put_u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, row.value(nic));
        });
      }
    });
    end(message);
  }

  void summary(const NicView& nic) {
    NetlinkMessage message = begin(nic);
    message.nest(RDMA_NLDEV_ATTR_RES_SUMMARY, [&] {
      message.nest(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, [&] {
        message.put_string(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, "qp");
        message.put_u64(RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, source_.qps(nic.index).size());
      });
    });
    end(message);
  }

  static void put(NetlinkMessage& message, const QpView& qp) {
    message.nest(RDMA_NLDEV_ATTR_RES_QP_ENTRY, [&] {
      message.put_u32(RDMA_NLDEV_ATTR_PORT_INDEX, kPort);
      message.put_u32(RDMA_NLDEV_ATTR_RES_LQPN, qp.qpn);
      if (qp.is_connected) {
        message.put_u32(RDMA_NLDEV_ATTR_RES_RQPN, qp.dest_qpn);
        message.put_u32(RDMA_NLDEV_ATTR_RES_RQ_PSN, qp.rq_psn);
      }
      message.put_u32(RDMA_NLDEV_ATTR_RES_SQ_PSN, qp.sq_psn);
      if (qp.is_connected) message.put_u8(RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, 0);  // MIGRATED
      message.put_u8(RDMA_NLDEV_ATTR_RES_TYPE, qp.type);
      message.put_u8(RDMA_NLDEV_ATTR_RES_STATE, qp.state);
      message.put_u32(RDMA_NLDEV_ATTR_RES_PID, qp.pid);
    });
  }

  void qps(const NicView& nic) {
    const std::vector<QpView> all = source_.qps(nic.index);
    std::size_t next = 0;
    do {
      NetlinkMessage message = begin(nic);
      message.nest(RDMA_NLDEV_ATTR_RES_QP, [&] {
        while (next < all.size() && message.size() < kFull) put(message, all[next++]);
      });
      end(message);
    } while (next < all.size());
  }

  void system() {
    NetlinkMessage message = begin();
    message.put_u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kSharedNetworkNamespaces);
    end(message);
  }

  const NicSource& source_;
  const Request& request_;
  std::uint32_t port_number_;
  std::vector<std::vector<std::uint8_t>>& out_;
};

/// What ends an answer: of a dump, or when an acknowledgement was asked for, or with an error.
std::optional<std::vector<std::uint8_t>> last_word(const Request& request, bool is_dump, int error,
                                                   std::uint32_t port_number) {
  nlmsghdr header = request.header;
  header.nlmsg_pid = port_number;
  const std::int32_t negative = -error;
  if (is_dump && error == 0) {
    header.nlmsg_type = NLMSG_DONE;
    header.nlmsg_flags = NLM_F_MULTI;
    NetlinkMessage done(header);
    done.append(&negative, sizeof negative);
    return done.finish();
  }
  if (error == 0 && (request.header.nlmsg_flags & NLM_F_ACK) == 0) return std::nullopt;
  header.nlmsg_type = NLMSG_ERROR;
  header.nlmsg_flags = NLM_F_CAPPED;
  NetlinkMessage acknowledgement(header);
  acknowledgement.append(&negative, sizeof negative);
  acknowledgement.append(&request.header, sizeof request.header);
  return acknowledgement.finish();
}

}  // namespace

std::vector<std::vector<std::uint8_t>> answer_netlink(const NicSource& source, Bytes sent, std::uint32_t port_number) {
  std::vector<std::vector<std::uint8_t>> out;
  while (sent.size() >= NLMSG_HDRLEN) {
    nlmsghdr header;
    std::memcpy(&header, sent.data(), sizeof header);
    if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > sent.size()) break;
    const Request request = parse(sent.first(header.nlmsg_len));
    if ((header.nlmsg_flags & NLM_F_REQUEST) != 0 && header.nlmsg_type >= NLMSG_MIN_TYPE) {
      Answer answer(source, request, port_number, out);
      const int error = answer.give();
      if (auto last = last_word(request, answer.is_dump(), error, port_number)) out.push_back(std::move(*last));
    }
    sent = sent.subspan(std::min<std::size_t>(sent.size(), NLMSG_ALIGN(header.nlmsg_len)));
  }
  return out;
}

}  // namespace uroce::view
