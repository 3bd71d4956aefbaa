// SPDX-License-Identifier: Apache-2.0
// Netlink messages (netlink(7)): a header, and attributes that may be nested.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace uroce::view {

/// A message in the making. Numbers are in host order, each part begins at a multiple of 4.
class NetlinkMessage {
 public:
  explicit NetlinkMessage(const nlmsghdr& header) : bytes_(NLMSG_HDRLEN), header_(header) {}

  void put_u8(int type, std::uint8_t value) { put(type, &value, sizeof value); }
  void put_u32(int type, std::uint32_t value) { put(type, &value, sizeof value); }
  void put_u64(int type, std::uint64_t value) { put(type, &value, sizeof value); }
  /// With the zero that ends it.
  void put_string(int type, std::string_view value) {
    begin(type, static_cast<std::uint16_t>(NLA_HDRLEN + value.size() + 1));
    append(value.data(), value.size());
    bytes_.push_back(0);
    align();
  }
  /// Attributes that `fill` puts are inside of this one.
  template <class Fill>
  void nest(int type, Fill fill) {
    const std::size_t start = bytes_.size();
    begin(type | NLA_F_NESTED, 0);
    fill();
    const auto length = static_cast<std::uint16_t>(bytes_.size() - start);
    std::memcpy(bytes_.data() + start, &length, sizeof length);
  }
  /// What is no attribute.
  void append(const void* data, std::size_t size) {
    const auto* const begin = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + size);
  }

  std::size_t size() const { return bytes_.size(); }
  std::vector<std::uint8_t> finish() {
    align();
    header_.nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return std::move(bytes_);
  }

 private:
  void begin(int type, std::uint16_t length) {
    const nlattr attribute{.nla_len = length, .nla_type = static_cast<std::uint16_t>(type)};
    append(&attribute, sizeof attribute);
  }
  void put(int type, const void* value, std::size_t size) {
    begin(type, static_cast<std::uint16_t>(NLA_HDRLEN + size));
    append(value, size);
    align();
  }
  void align() { bytes_.resize((bytes_.size() + 3) & ~std::size_t{3}); }

  std::vector<std::uint8_t> bytes_;
  nlmsghdr header_;
};

}  // namespace uroce::view
