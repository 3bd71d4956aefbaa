// SPDX-License-Identifier: Apache-2.0
// Captures of other makes: the same packets in each format and link type give the same story. Damaged ones end where
// they are damaged, and never crash or fill the memory.
#include "tools/explain/capture/reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "proto/pcap_format.h"
#include "tests/unit/explain/retold.h"
#include "tests/unit/explain/rewritten.h"
#include "tests/unit/explain/scripted.h"

namespace uroce::explain::test {
namespace {

const std::string kName = "rxe/loss_send_middle.atA";
const std::string kCounts = "nak:5 nak_sequence:1";

TEST(Reader, EachLinkTypeGivesTheSameStory) {
  EXPECT_EQ(retell_bytes(pcap(kName)).counts(), kCounts);
  EXPECT_EQ(retell_bytes(pcap(kName, {.swapped = true})).counts(), kCounts);
  EXPECT_EQ(retell_bytes(pcap(kName, {.microseconds = true})).counts(), kCounts);
  EXPECT_EQ(retell_bytes(pcap(kName, {.link_type = 0x50000001})).counts(), kCounts);  // With a frame check sequence.
  const auto behind = [](std::uint32_t link_type, std::size_t header, std::optional<std::size_t> type_at) {
    const auto convert = [=](const Octets& frame) { return behind_ethernet(frame, header, type_at); };
    return retell_bytes(pcap(kName, {.link_type = link_type, .convert = convert})).counts();
  };
  EXPECT_EQ(behind(101, 0, {}), kCounts);
  EXPECT_EQ(behind(0, 4, {}), kCounts);
  EXPECT_EQ(behind(113, 16, 14), kCounts);
  EXPECT_EQ(behind(276, 20, 0), kCounts);
}

TEST(Reader, FramesThatWereCutOffAreToldWithoutIcrc) {
  const Retold retold = retell_bytes(pcap(kName, {.snap = 80}));
  EXPECT_EQ(retold.counts(), kCounts);
  EXPECT_EQ(retold.story->totals().icrc_unknown, 13u);  // ACKs are shorter.
  EXPECT_EQ(retold.story->totals().icrc_wrong, 0u);
}

TEST(Reader, UnknownNetworksAreSaid) {
  const auto unknown = [](std::uint32_t link_type) {
    const Retold retold = retell_bytes(pcap(kName, {.link_type = link_type}));
    EXPECT_TRUE(retold.lines.empty());
    return retold.files[0].unknown_link;
  };
  EXPECT_EQ(unknown(147), "link type 147");
  EXPECT_EQ(unknown(197), "link type 197 (Endace ERF)");
  EXPECT_EQ(unknown(247), "link type 247 (InfiniBand)");
}

/// Both ends in one file, as uroce writes it: each packet twice, with its direction and its interface.
TEST(Reader, BothEndsInOnePcapngAreTwoTaps) {
  Octets file;
  using namespace proto::pcap_format;
  put_header(Format::kPcapng, file);
  put_interface("one", file);
  put_interface("two", file);
  const auto at_a = frames_of("rxe/loss_send_middle.atA");
  const auto a = proto::Gid::from_v4(10, 77, 0, 11);
  for (std::size_t i = 0; i < at_a.size(); ++i) {
    const auto& [time, frame] = at_a[i];
    const bool from_a = std::equal(a.v4(), a.v4() + 4, frame.begin() + 26);
    proto::pcap_format::Packet packet{.time_ns = time, .frame = frame, .comment = i == 0 ? "so says the NIC" : ""};
    packet.interface = from_a ? 0 : 1;
    packet.direction = proto::pcap_format::Direction::kSent;
    put_packet(Format::kPcapng, packet, file);
    if (i == 3) continue;  // Lost.
    packet.time_ns += 1000;
    packet.interface = from_a ? 1 : 0;
    packet.direction = proto::pcap_format::Direction::kReceived;
    put_packet(Format::kPcapng, packet, file);
  }
  const Retold retold = retell_bytes(file);
  EXPECT_EQ(retold.lines.size(), at_a.size());
  EXPECT_EQ(retold.counts(), "lost:1 " + kCounts);
  EXPECT_EQ(retold.noted("comment"), 1u);
}

/// A section of a pcapng, with one interface.
Octets section(const std::string& interface, std::span<const std::pair<std::int64_t, Octets>> frames) {
  using namespace proto::pcap_format;
  Octets file;
  put_header(Format::kPcapng, file);
  put_interface(interface, file);
  for (const auto& [time, frame] : frames) {
    put_packet(Format::kPcapng, {.time_ns = time, .frame = frame, .comment = {}}, file);
  }
  return file;
}

Octets joined(const std::vector<Octets>& sections) {
  Octets file;
  for (const Octets& each : sections) file.insert(file.end(), each.begin(), each.end());
  return file;
}

using Frames = std::vector<std::pair<std::int64_t, Octets>>;

Frames frames_in(Octets capture) {
  auto reader = Reader::open(Input(std::move(capture)));
  Frames frames;
  Frame frame;
  while (reader->next(frame) == Reader::Next::kFrame) {
    frames.emplace_back(frame.time_ns, Octets(frame.bytes.begin(), frame.bytes.end()));
  }
  return frames;
}

// A Simple Packet Block does not tell how much of the packet it has, and its end is padding.
TEST(Reader, ASimplePacketEndsWhereItsInterfaceCutsIt) {
  const auto put = [](Octets& file, std::size_t at, std::uint32_t value) { std::memcpy(&file[at], &value, 4); };
  Octets file;
  proto::pcap_format::put_header(proto::pcap_format::Format::kPcapng, file);
  const std::size_t interface = file.size();
  proto::pcap_format::put_interface("lo", file);
  constexpr std::uint32_t kSnapLength = 70, kBlock = 16 + 72;
  put(file, interface + 12, kSnapLength);
  const std::size_t packet = file.size();
  file.resize(packet + kBlock);
  put(file, packet, 3);
  put(file, packet + 4, kBlock);
  put(file, packet + 8, 200);  // On the wire.
  put(file, packet + kBlock - 4, kBlock);
  const Frames frames = frames_in(file);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].second.size(), kSnapLength);
}

/// As `cat first.pcapng second.pcapng` makes it, of a capture that was cut into files. No Identification tells that a
/// packet was sent again.
TEST(Reader, SectionsThatFollowEachOtherAreOneTap) {
  using enum proto::Opcode;
  std::vector<Scripted> packets{{true, kRcSendOnly, 0x100, 4},
                                {false, kRcAcknowledge, 0x100, 0, aeth(1)},
                                {true, kRcSendOnly, 0x102, 4},
                                {false, kRcAcknowledge, 0x101, 0, nak(1)}};
  for (std::uint32_t i = 1; i < 8; ++i) packets.push_back({true, kRcSendOnly, 0x100 + i, 4});
  for (std::uint32_t i = 1; i < 8; ++i) packets.push_back({false, kRcAcknowledge, 0x100 + i, 0, aeth(i + 1)});
  const Frames frames = frames_in(scripted_pcap(packets));
  const std::span all(frames);
  const std::string counts = retell_bytes(section("eth0", all)).counts();
  EXPECT_THAT(counts, testing::HasSubstr("nak:2"));
  for (std::size_t cut = 1; cut < frames.size(); ++cut) {
    for (const std::string name : {"", "eth0"}) {
      const Retold retold = retell_bytes(joined({section(name, all.first(cut)), section(name, all.subspan(cut))}));
      EXPECT_EQ(retold.counts(), counts) << cut;
      EXPECT_EQ(retold.lines.size(), frames.size()) << cut;
    }
  }
}

/// What a section says of its interface counts for its own packets: the second one has no options, so microseconds.
TEST(Reader, SectionsMayCountTimeInOtherUnits) {
  Frames frames = frames_of(kName);
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i].first = static_cast<std::int64_t>(i) * 1000;
  const std::span all(frames);
  Octets second = section("", all.subspan(9));
  const auto block = second.begin() +
                     static_cast<std::ptrdiff_t>(proto::pcap_format::header_size(proto::pcap_format::Format::kPcapng));
  std::uint32_t size = 0;
  std::memcpy(&size, &*block + 4, sizeof size);
  Writer plain;
  plain.word(1).word(20).half(1).half(0).word(0).word(20);
  second.insert(second.erase(block, block + size), plain.out.begin(), plain.out.end());
  auto reader = Reader::open(Input(joined({section("", all.first(9)), second})));
  Frame frame;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    ASSERT_EQ(reader->next(frame), Reader::Next::kFrame);
    EXPECT_EQ(frame.time_ns, static_cast<std::int64_t>(i) * (i < 9 ? 1000 : 1'000'000));
    EXPECT_EQ(frame.interface, 0u);
  }
}

/// As `cat` makes it of the captures of both ends, whose interfaces have the same name.
TEST(Reader, SectionsOfTheSameTimeAreTwoTaps) {
  const Frames a = frames_of("rxe/loss_nak.atA"), b = frames_of("rxe/loss_nak.atB");
  const std::string counts = retell({"rxe/loss_nak.atA", "rxe/loss_nak.atB"}).counts();
  EXPECT_EQ(retell_bytes(joined({section("eth0", a), section("eth0", b)})).counts(), counts);
  // Each end was cut into two files, in the long wait.
  const auto part = [&a](const Frames& frames, bool second) {
    const auto cut = std::find_if(frames.begin(), frames.end(),
                                  [&](const auto& frame) { return frame.first > a.front().first + 100'000'000; });
    const auto first = static_cast<std::size_t>(cut - frames.begin());
    return section("eth0", second ? std::span(frames).subspan(first) : std::span(frames).first(first));
  };
  EXPECT_EQ(retell_bytes(joined({part(a, false), part(b, false), part(a, true), part(b, true)})).counts(), counts);
  EXPECT_EQ(retell_bytes(joined({part(a, false), part(a, true), part(b, false), part(b, true)})).counts(), counts);
}

/// Two processes write to a FIFO by turns: a section for each turn.
TEST(Reader, SectionsMayBeManyMoreThanInterfaces) {
  const auto frames = frames_of(kName);
  constexpr std::int64_t kTurns = 120'000;
  Octets file;
  for (std::int64_t i = 0; i < kTurns; ++i) {
    const Frames one{{frames[0].first + i * 1000, frames[0].second}};
    const Octets turn = section(i % 2 == 0 ? "uroce0 (a 1)" : "uroce0 (b 2)", one);
    file.insert(file.end(), turn.begin(), turn.end());
  }
  auto reader = Reader::open(Input(std::move(file)));
  ASSERT_TRUE(reader.ok());
  Frame frame;
  std::int64_t read = 0;
  for (; reader->next(frame) == Reader::Next::kFrame; ++read) {
    ASSERT_EQ(frame.interface, static_cast<std::uint32_t>(read % 2)) << read;
  }
  EXPECT_EQ(reader->damage(), "");
  EXPECT_EQ(read, kTurns);
  EXPECT_EQ(reader->interface_name(1), "uroce0 (b 2)");
}

TEST(Reader, SectionsOfOtherInterfacesAreOtherTaps) {
  const auto frames = frames_of(kName);
  const std::span all(frames);
  const Retold retold = retell_bytes(joined({section("eth0", all.first(3)), section("eth1", all.subspan(3))}));
  EXPECT_NE(retold.lines.front().packet.tap, retold.lines.back().packet.tap);
}

TEST(Reader, ACutCaptureTellsWhereItEnds) {
  const Octets whole = read_capture(kName);
  for (std::size_t size = 0; size < whole.size(); size += 37) {
    const Retold retold = retell_bytes(Octets(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    if (retold.files.empty()) continue;  // Shorter than the file's header.
    EXPECT_LE(retold.lines.size(), 15u);
  }
  const Retold retold = retell_bytes(Octets(whole.begin(), whole.end() - 1));
  EXPECT_EQ(retold.lines.size(), 14u);
  EXPECT_THAT(retold.files.at(0).damage, testing::StartsWith("cut off in the packet at byte "));
}

/// The read end of a terminal whose other end has written `bytes` and is gone: behind them, it gives EIO.
int terminal_that_fails_behind(std::span<const std::uint8_t> bytes) {
  const int read_end = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(::grantpt(read_end), 0);
  EXPECT_EQ(::unlockpt(read_end), 0);
  const int write_end = ::open(::ptsname(read_end), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios attributes{};
  ::cfmakeraw(&attributes);
  EXPECT_EQ(::tcsetattr(write_end, TCSANOW, &attributes), 0);
  EXPECT_EQ(::write(write_end, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ::close(write_end);
  return read_end;
}

TEST(Reader, ACaptureThatCannotBeReadFurtherIsNotCalledCut) {
  const Octets whole = read_capture(kName);
  const int before = ::dup(STDIN_FILENO);
  const int terminal = terminal_that_fails_behind(std::span(whole).first(1500));
  ASSERT_EQ(::dup2(terminal, STDIN_FILENO), STDIN_FILENO);
  auto input = Input::open("-", /*follow=*/false);
  ::dup2(before, STDIN_FILENO);
  ::close(before);
  ::close(terminal);
  ASSERT_TRUE(input.ok());
  auto reader = Reader::open(std::move(*input));
  ASSERT_TRUE(reader.ok());
  Frame frame;
  while (reader->next(frame) == Reader::Next::kFrame) continue;
  EXPECT_THAT(reader->damage(), testing::StartsWith("can't be read further (Input/output error) at byte "));
}

Octets as_pcapng(const std::string& name) {
  Octets file;
  using namespace proto::pcap_format;
  put_header(Format::kPcapng, file);
  put_interface("one", file);
  for (const auto& [time, frame] : frames_of(name)) {
    put_packet(Format::kPcapng, {.time_ns = time, .frame = frame, .comment = "c", .interface = 0, .direction = {}},
               file);
  }
  return file;
}

TEST(Reader, FlippedBytesAreSurvived) {
  std::mt19937 random(16);
  for (const std::string name : {"rxe/loss_read_two_middle.atA", "rxe/cm_rping_v4", "rxe/rc_rnr_write_imm",
                                 "rxe/uc_loss_send.atB", "rxe/rc_faa", "rxe/reorder_send.atB", "rxe/ud_send_imm_v6"}) {
    for (const Octets& whole : {read_capture(name), as_pcapng(name)}) {
      for (int round = 0; round < 150; ++round) {
        Octets damaged = whole;
        const std::size_t flips = 1 + random() % 8;
        for (std::size_t i = 0; i < flips; ++i)
          damaged[random() % damaged.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
        static_cast<void>(retell_bytes(damaged).counts());
      }
    }
  }
}

/// What a NIC does in each packet (Huawei's sets a reserved bit of BTH) is told once of each side, and counted.
TEST(Story, AHabitIsToldOnce) {
  const auto convert = [](const Octets& frame) {
    Octets other = frame;
    other[14 + 20 + 8 + 4] |= 0x10;  // The ICRC does not cover it.
    return other;
  };
  const Retold retold = retell_bytes(pcap(kName, {.convert = convert}));
  std::vector<std::uint64_t> told;
  for (const Line& line : retold.lines) {
    ASSERT_EQ(line.packet.icrc, Icrc::kRight);
    const auto& notes = line.told.notes;
    if (std::any_of(notes.begin(), notes.end(), [](const Note& n) { return n.code == "header" && !n.repeated; }))
      told.push_back(line.packet.place.frame);
  }
  EXPECT_EQ(told, (std::vector<std::uint64_t>{1, 9}));
  const Connection& connection = *retold.story->connections().at(0);
  EXPECT_EQ(connection.left_habits.all().at(0).packets, 13u);
  EXPECT_EQ(connection.right_habits.all().at(0).packets, 2u);
}

/// Clocks that run apart by 50 us in each millisecond make no packet slow; a packet that is 30 ms late is.
TEST(Story, ClocksMayRunApart) {
  for (const std::int64_t drift : {50'000, -50'000}) {
    const Names names(true);
    Story story(names);
    std::vector<std::uint64_t> slow;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      Packet packet;
      packet.place = {0, i + 1};
      packet.other = {1, i + 1};
      packet.op = &proto::info(proto::Opcode::kRcWriteOnly);
      packet.icrc = Icrc::kRight;
      packet.psn = proto::Psn{i};
      packet.time_ns = i * 1'000'000LL;
      packet.fate = Fate::kArrived;
      packet.other_time_ns = packet.time_ns + 10'000 + drift * i + (i == 700 ? 30'000'000 : 0);
      for (const Note& note : story.tell(packet).notes) {
        if (note.code == "slow") slow.push_back(packet.place.frame);
      }
    }
    EXPECT_EQ(slow, std::vector<std::uint64_t>{701}) << drift;
  }
}

/// A peer that was stopped takes everything late. A captured loss remains one.
TEST(Story, WhatArrivesLateWasNotLost) {
  for (const bool is_lost : {false, true}) {
    const Names names(true);
    Story story(names);
    std::int64_t now = 0;
    const auto tell = [&](proto::Opcode opcode, std::uint32_t psn, Fate fate, std::int64_t way_ns) {
      Packet packet;
      packet.place = {0, static_cast<std::uint64_t>(now + 1)};
      packet.other = {1, static_cast<std::uint64_t>(now + 1)};
      packet.op = &proto::info(opcode);
      packet.icrc = Icrc::kRight;
      packet.psn = proto::Psn{psn};
      packet.msn = psn + 1;
      packet.time_ns = now;
      packet.fate = fate;
      packet.other_time_ns = packet.is_response() ? now - way_ns : now + way_ns;
      story.tell(packet);
    };
    constexpr std::int64_t kSoon = 10'000, kStopped = 100'000'000, kTimeout = 67'000'000;
    tell(proto::Opcode::kRcWriteOnly, 0, Fate::kArrived, kSoon);
    now += 2 * kSoon;
    tell(proto::Opcode::kRcAcknowledge, 0, Fate::kArrived, kSoon);
    now += kSoon;
    tell(proto::Opcode::kRcWriteOnly, 1, is_lost ? Fate::kLost : Fate::kArrived, kStopped);
    tell(proto::Opcode::kRcWriteOnly, 2, Fate::kArrived, kStopped);
    now += kTimeout;
    tell(proto::Opcode::kRcWriteOnly, 1, Fate::kArrived, kStopped - kTimeout);
    tell(proto::Opcode::kRcWriteOnly, 2, Fate::kArrived, kStopped - kTimeout);
    now += kStopped - kTimeout + kSoon;
    tell(proto::Opcode::kRcAcknowledge, 2, Fate::kArrived, kSoon);
    EXPECT_EQ(
        story.connections().at(0)->to_right.numbers().rounds.at(0).finding,
        is_lost ? "a request or its answer was lost" : "nothing was lost between the captures, but packets were late");
  }
}

/// A request that the network delays gets its message late, and is still answered in the order of PSNs.
TEST(Story, LateReadsAreAnsweredInTheOrderOfPsns) {
  const Names names(false);
  Story story(names);
  std::uint64_t frame = 0;
  const auto send = [&](proto::Opcode opcode, std::uint32_t psn, bool back) {
    Packet packet;
    packet.place = {0, ++frame};
    packet.time_ns = static_cast<std::int64_t>(frame - 1) * 1000;  // Virtual time begins at 0.
    packet.source = proto::Gid::from_v4(10, 0, 0, back ? 2 : 1);
    packet.destination = proto::Gid::from_v4(10, 0, 0, back ? 1 : 2);
    packet.op = &proto::info(opcode);
    packet.dest_qp = back ? 18 : 17;
    packet.psn = proto::Psn{psn};
    packet.icrc = Icrc::kRight;
    packet.syndrome = opcode == proto::Opcode::kRcAcknowledge ? 0x60 : 0x1F;
    packet.length = packet.payload = opcode == proto::Opcode::kRcReadResponseOnly || !back ? 64 : 0;
    return story.tell(packet);
  };
  for (const std::uint32_t psn : {0x100u, 0x102u, 0x101u, 0x103u}) send(proto::Opcode::kRcReadRequest, psn, false);
  send(proto::Opcode::kRcReadResponseOnly, 0x100, true);
  EXPECT_EQ(send(proto::Opcode::kRcAcknowledge, 0x102, true).notes.at(0).code, "nak_sequence");
  // Its message has a higher number than that of PSN 0x102, which has not been answered.
  EXPECT_EQ(send(proto::Opcode::kRcReadResponseOnly, 0x101, true).reason, Reason::kAnswer);
  const Connection& told = *story.connections().at(0);
  EXPECT_EQ(told.to_right.numbers().latency.count(), 2u);
  EXPECT_EQ((std::array{story.totals().first_ns, told.first_ns, told.to_right.numbers().first_ns}),
            (std::array<std::int64_t, 3>{}));
}

/// The story itself, from packets whose ICRC is right whatever they say: fields at random, little order in them.
TEST(Story, PacketsAtRandomAreSurvivedInBoundedMemory) {
  std::mt19937 random(1);
  const Names names(false);
  const auto before = mallinfo2().uordblks;
  Story story(names);
  for (std::uint64_t i = 0; i < 60'000; ++i) {
    Packet packet;
    packet.place = {0, i + 1};
    packet.time_ns = 1'000'000'000 + static_cast<std::int64_t>(i) * 1000;
    packet.source = proto::Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(random() % 2));
    packet.destination = proto::Gid::from_v4(10, 0, 0, static_cast<std::uint8_t>(random() % 2));
    packet.op = &proto::kOpcodes[random() % proto::kOpcodes.size()];
    packet.dest_qp = i < 30'000 ? static_cast<std::uint32_t>(random() % 3) : static_cast<std::uint32_t>(random());
    packet.psn = proto::Psn{static_cast<std::uint32_t>(random() % 16 == 0 ? random() : random() % 64)};
    packet.icrc = Icrc::kRight;
    packet.payload = random() % 3 == 0 ? 256 : static_cast<std::uint32_t>(random() % 5000);
    packet.length = static_cast<std::uint32_t>(random());
    packet.va = random() % 4096;
    packet.syndrome = static_cast<std::uint8_t>(random());
    packet.msn = static_cast<std::uint32_t>(random() % 100);
    packet.fate = Fate{static_cast<std::uint8_t>(random() % 4)};
    static_cast<void>(story.tell(packet));
  }
  story.finish();
  EXPECT_LE(story.connections().size(), Story::kMostConnections);
  EXPECT_LT(mallinfo2().uordblks - before, 200'000'000u);
}

TEST(Story, AThousandTimesAThousandUnansweredPacketsAreNotKept) {
  const Names names(false);
  Story story(names);
  const auto before = mallinfo2().uordblks;
  Packet packet;
  packet.op = &proto::info(proto::Opcode::kRcWriteOnly);
  packet.icrc = Icrc::kRight;
  packet.dest_qp = 17;
  for (std::uint32_t i = 0; i < 1'000'000; ++i) {
    packet.place = {0, i + 1};
    packet.time_ns = i + 1;
    packet.psn = proto::Psn{i};
    static_cast<void>(story.tell(packet));
  }
  EXPECT_EQ(story.connections().at(0)->to_right.numbers().packets, 1'000'000u);
  EXPECT_LT(mallinfo2().uordblks - before, 10'000'000u);
}

}  // namespace
}  // namespace uroce::explain::test
