// SPDX-License-Identifier: Apache-2.0
#include "proto/field.h"

#include <gtest/gtest.h>

#include "proto/entropy.h"
#include "proto/opcodes.h"
#include "proto/psn.h"

namespace uroce::proto {
namespace {

TEST(Field, StoreKeepsTheNeighbours) {
  for (const unsigned background : {0x00u, 0xFFu, 0xA5u}) {
    std::array<std::uint8_t, Bth::kSize> bytes{};
    bytes.fill(static_cast<std::uint8_t>(background));
    MutView<Bth>{bytes.data()}.set<Bth::PadCount>(2).set<Bth::Becn>(1).set<Bth::AckReq>(0);
    EXPECT_EQ(bytes[1], (background & 0xCF) | 0x20);
    EXPECT_EQ(bytes[4], background | 0x40);
    EXPECT_EQ(bytes[8], background & 0x7F);
    EXPECT_EQ(bytes[0], background);
    EXPECT_EQ(bytes[11], background);
  }
}

TEST(Field, StoreCutsToTheWidth) {
  std::array<std::uint8_t, Bth::kSize> bytes{};
  MutView<Bth>{bytes.data()}.set<Bth::PsnField>(0xFF123456);
  EXPECT_EQ(ConstView<Bth>{bytes.data()}.get<Bth::PsnField>(), 0x123456u);
  EXPECT_EQ(bytes[8], 0);
}

TEST(Bytes, BigEndianAtEveryWidth) {
  const std::array<std::uint8_t, 8> bytes{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(load_be<1>(bytes.data()), 0x01u);
  EXPECT_EQ(load_be<2>(bytes.data()), 0x0102u);
  EXPECT_EQ(load_be<3>(bytes.data()), 0x010203u);
  EXPECT_EQ(load_be<4>(bytes.data()), 0x01020304u);
  EXPECT_EQ(load_be<6>(bytes.data()), 0x010203040506u);
  EXPECT_EQ(load_be<8>(bytes.data()), 0x0102030405060708u);
  std::array<std::uint8_t, 8> out{};
  store_be<8>(out.data(), 0x0102030405060708u);
  EXPECT_EQ(out, bytes);
}

// Every row names the service and the operation that its code stands for (IBTA Vol 1, 9.2.1).
TEST(Opcodes, CatalogueIsWellFormed) {
  for (const OpcodeInfo& op : kOpcodes) {
    const auto code = static_cast<std::uint8_t>(op.code);
    SCOPED_TRACE(op.name);
    EXPECT_EQ(find_opcode(code), &op);
    EXPECT_EQ(op.stack.ids[0], HeaderId::kBth);
    EXPECT_EQ(op.stack.bytes % 4, 0);
    const bool first_reth = op.kind == Kind::kWrite && op.starts();
    const bool has_reth =
        first_reth || op.kind == Kind::kReadRequest || op.kind == Kind::kAtomicWrite || op.kind == Kind::kFlush;
    EXPECT_EQ(op.has(HeaderId::kReth), has_reth);
    EXPECT_EQ(op.has(HeaderId::kImmDt), op.name.ends_with("IMM"));
    EXPECT_EQ(op.has(HeaderId::kIeth), op.name.ends_with("INV"));
    EXPECT_EQ(op.has(HeaderId::kFeth), op.kind == Kind::kFlush);
    EXPECT_EQ(op.has(HeaderId::kDeth), op.service == Service::kUd);
    if (op.kind == Kind::kSend) {
      EXPECT_EQ(op.consumes_receive, op.starts());
    }
    if (op.kind == Kind::kWrite) {
      EXPECT_EQ(op.consumes_receive, op.has(HeaderId::kImmDt));
    }
  }
  EXPECT_EQ(std::count_if(kOpcodes.begin(), kOpcodes.end(), [](auto& op) { return op.service == Service::kRc; }), 25);
}

TEST(Psn, DistanceWrapsAround) {
  EXPECT_EQ(Psn{0x000001} - Psn{0xFFFFFE}, 3);
  EXPECT_EQ(Psn{0xFFFFFE} - Psn{0x000001}, -3);
  EXPECT_EQ(Psn{0x7FFFFF} - Psn{0}, 0x7FFFFF);
  EXPECT_EQ(Psn{0x800000} - Psn{0}, -0x800000);
  EXPECT_EQ(Psn{5} - 6u, Psn{0xFFFFFF});
}

// Computed apart, by a script. The captures only have small QP numbers, whose product needs no folding.
TEST(Entropy, KnownAnswers) {
  EXPECT_EQ(flow_source_port(0, 0x123456, 0xabcdef), 0xc3c8);
  EXPECT_EQ(flow_source_port(0, 0xffffff, 0xffffff), 0xff21);
  EXPECT_EQ(flow_source_port(0, 0x10011, 0x20012), 0xe121);
  EXPECT_EQ(flow_source_port(0, 0x11, 0x12), 0xc132);
}

TEST(Entropy, SourcePortStaysInItsRange) {
  for (std::uint32_t qpn = 1; qpn < 0x1000000; qpn = qpn * 3 + 1) {
    EXPECT_GE(flow_source_port(0, qpn, 0xFFFFFF), 0xC000);
    EXPECT_EQ(flow_source_port(0, qpn, 0x1234), flow_source_port(0, 0x1234, qpn));
  }
  EXPECT_EQ(flow_source_port(0x12345, 1, 2), 0xC000 | (0x2345 ^ 4));
  EXPECT_EQ(flow_source_port(0x112345, 1, 2), flow_source_port(0x12345, 3, 4));
}

}  // namespace
}  // namespace uroce::proto
