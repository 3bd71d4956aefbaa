// SPDX-License-Identifier: Apache-2.0
// Recordings on disk: their files, how many there may be, and what a killed process leaves.
#include "verbs/record/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "proto/base/fd.h"
#include "proto/frame.h"
#include "proto/pcap_reader.h"
#include "tests/unit/record/flights.h"
#include "verbs/record/files.h"
#include "verbs/record/text_field.h"

namespace uroce::record::test {
namespace {

namespace fs = std::filesystem;

class Store : public testing::Test {
 protected:
  Store() {
    std::string name = testing::TempDir() + "recordXXXXXX";
    folder = ::mkdtemp(name.data());
  }
  ~Store() override { fs::remove_all(folder); }
  std::size_t count(const std::string& extension) const {
    std::size_t n = 0;
    for (const auto& entry : fs::directory_iterator(folder)) n += entry.path().extension() == extension ? 1u : 0u;
    return n;
  }
  std::string folder;
};

TEST_F(Store, ACaptureHasWholeLengthsAndComments) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  flight.event(2ms, TraceKind::kRetransmitted, 0x105, 0, Phase::kSending);
  flight.sends_write(2ms, 0x105);
  const auto path = save(flight.read(), "a test", folder);
  ASSERT_TRUE(path.ok()) << path.error();
  auto reader = proto::PcapReader::open(*path + ".pcapng");
  ASSERT_TRUE(reader.ok()) << reader.error();
  const auto frame = reader->next();
  ASSERT_TRUE(frame.ok() && *frame);
  EXPECT_EQ((*frame)->bytes.size(), 14u + 20u + 8u + kHeadBytes);
  EXPECT_EQ((*frame)->wire_size, 14u + 20u + 8u + 12u + 16u + 100u + 4u);
  std::ifstream file(*path + ".pcapng", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(bytes.find("NIC: sent again"), std::string::npos);
}

/// The IPv4 Identification of other senders is a part of their ICRC.
TEST_F(Store, WholePacketsHaveTheirRightIcrc) {
  Flight flight;
  flight.gets_message(1ms, 7);
  flight.gets_message(2ms, 8, 0x1234);
  flight.gets_ack(3ms, 0x105);
  const auto path = save(flight.read(), "a test", folder);
  auto reader = proto::PcapReader::open(*path + ".pcapng");
  for (const int ip_id : {0, 0x1234, 0}) {
    const auto frame = reader->next();
    ASSERT_TRUE(frame.ok() && *frame);
    const auto parsed = proto::parse_frame((*frame)->bytes);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed->fields.ip_id, ip_id);
    EXPECT_TRUE(proto::icrc_ok(*parsed));
  }
}

TEST_F(Store, OldRecordingsMakeRoom) {
  Flight flight;
  for (std::size_t i = 0; i < kRecordingsKept + 3; ++i) ASSERT_TRUE(save(flight.read(), "a test", folder).ok());
  EXPECT_EQ(count(".json"), kRecordingsKept);
  EXPECT_EQ(count(".pcapng"), kRecordingsKept);
}

/// A directory may have files that only look like ours: of other names, or of other contents.
TEST_F(Store, FilesOfOthersDoNotMakeRoom) {
  const auto names = {"uroce-results.json", "uroce-a-b-1.json", "uroce-1-2-3.json", "uroce-study-2024-1-2.json",
                      "uroce-study-2024-1-2.pcapng"};
  for (const char* name : names) {
    const std::string path = folder + '/' + name;
    std::ofstream(path) << "{\"mine\": 1}";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  Flight flight;
  for (std::size_t i = 0; i < kRecordingsKept + 3; ++i) ASSERT_TRUE(save(flight.read(), "a test", folder).ok());
  for (const char* name : names) EXPECT_TRUE(fs::exists(folder + '/' + name)) << name;
  EXPECT_EQ(count(".json"), kRecordingsKept + 4);
}

/// In a directory of several users, the recordings of one take no room from those of another.
TEST_F(Store, RecordingsOfAnotherUserDoNotMakeRoom) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  constexpr uid_t kAnotherUser = 12345;
  Flight flight;
  for (std::size_t i = 0; i < kRecordingsKept; ++i) {
    const auto theirs = save(flight.read(), "a test", folder);
    ASSERT_TRUE(theirs.ok());
    ASSERT_EQ(::chown((*theirs + ".json").c_str(), kAnotherUser, kAnotherUser), 0);
  }
  const auto ours = save(flight.read(), "a test", folder);
  ASSERT_TRUE(ours.ok());
  fs::last_write_time(*ours + ".json", fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(save(flight.read(), "a test", folder).ok());
  EXPECT_TRUE(fs::exists(*ours + ".json"));
  EXPECT_EQ(count(".json"), kRecordingsKept + 2);
}

TEST_F(Store, WhereAllAreKeptNothingIsRemoved) {
  Flight flight;
  for (std::size_t i = 0; i < kRecordingsKept + 3; ++i) {
    ASSERT_TRUE(save(flight.read(), "a test", folder, Keep::kAll).ok());
  }
  EXPECT_EQ(count(".json"), kRecordingsKept + 3);
}

/// It is as old as what its process did last, not as the moment that finds it.
TEST_F(Store, WhatAKilledProcessLeftIsDatedByItsLastEvent) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto minute = std::chrono::minutes(1);
  flight.ring->wall_offset_ns = std::chrono::nanoseconds(now - minute).count() - flight.ring->packet[0].when_ns;
  std::ofstream(folder + "/uroce-killed-1-0.ring", std::ios::binary)
      .write(reinterpret_cast<const char*>(flight.ring.get()), sizeof(Ring));
  EXPECT_TRUE(save_left_rings(folder).empty());
  struct stat facts {};
  const auto read = flight.read();
  ASSERT_EQ(::stat((folder + '/' + stem_of(read.program, read.pid, read.nic) + "-1.json").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mtim.tv_sec, std::chrono::duration_cast<std::chrono::seconds>(now - minute).count());
}

/// A file's name has 255 bytes at most, and a program's may have as many.
TEST(Stem, CutsTheNameOfTheProgramAsTheRingDoes) {
  EXPECT_EQ(stem_of(std::string(245, 'p'), 1, 2), "uroce-" + std::string(31, 'p') + "-1-2");
  EXPECT_EQ(stem_of("a/b", 1, 2), "uroce-a_b-1-2");
}

TEST_F(Store, WhatAKilledProcessLeavesBecomesARecording) {
  const std::string left = folder + "/uroce-killed-1-0.ring", alive = folder + "/uroce-alive-2-0.ring";
  Flight flight;
  flight.sends_write(1ms, 0x105);
  for (const std::string& name : {left, alive}) {
    std::ofstream(name, std::ios::binary).write(reinterpret_cast<const char*>(flight.ring.get()), sizeof(Ring));
  }
  const Fd owner(::open(alive.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(owner.get(), LOCK_EX), 0);
  EXPECT_TRUE(save_left_rings(folder).empty());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_EQ(count(".json"), 1u);
}

/// Root may look there first; the recording is still its user's, to remove or to write over.
TEST_F(Store, WhatAnotherUsersProcessLeavesStaysThatUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  constexpr uid_t kAnotherUser = 12345, kTheirGroup = 23456;
  const std::string left = folder + "/uroce-killed-1-0.ring";
  Flight flight;
  flight.sends_write(1ms, 0x105);
  std::ofstream(left, std::ios::binary).write(reinterpret_cast<const char*>(flight.ring.get()), sizeof(Ring));
  ASSERT_EQ(::chown(left.c_str(), kAnotherUser, kTheirGroup), 0);
  EXPECT_TRUE(save_left_rings(folder).empty());
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    struct stat facts {};
    ASSERT_EQ(::stat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_uid, kAnotherUser) << entry.path();
    EXPECT_EQ(facts.st_gid, kTheirGroup) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 2u);
}

// Between making the file, locking it and writing into it, a process has a file that looks left behind.
TEST_F(Store, TheFileOfAProcessThatIsJustOpeningItsNicStays) {
  const std::string made = folder + "/uroce-opening-1-0.ring", sized = folder + "/uroce-opening-2-0.ring";
  std::ofstream(made).flush();
  std::ofstream(sized).flush();
  fs::resize_file(sized, sizeof(Ring));
  EXPECT_TRUE(save_left_rings(folder).empty());
  EXPECT_TRUE(fs::exists(made));
  EXPECT_TRUE(fs::exists(sized));
  EXPECT_EQ(count(".json"), 0u);
}

TEST_F(Store, ARingThatBecomesNoRecordingIsNamedWithWhy) {
  const std::string other = folder + "/uroce-other-1-0.ring", link = folder + "/uroce-link-2-0.ring",
                    left = folder + "/uroce-left-3-0.ring";
  std::ofstream(other) << "what another build has written";
  fs::create_symlink(other, link);
  Flight flight;
  std::ofstream(left, std::ios::binary).write(reinterpret_cast<const char*>(flight.ring.get()), sizeof(Ring));
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const rlimit nothing{.rlim_cur = 0, .rlim_max = old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &nothing);
  const std::vector<std::string> failed = save_left_rings(folder);
  ::setrlimit(RLIMIT_FSIZE, &old);
  const std::string document =
      folder + "/" + stem_of(flight.read().program, flight.read().pid, flight.read().nic) + "-1.json";
  EXPECT_THAT(failed,
              testing::UnorderedElementsAre(other + ": damaged, or of another version of uroce",
                                            link + ": it is a symbolic link, not the file of a NIC",
                                            left + ": can't write the recording " + document + ": File too large"));
  EXPECT_EQ(count(".ring"), 3u);
  EXPECT_EQ(count(".json"), 0u);
}

// To open it would wait for somebody who writes.
TEST_F(Store, APipeWithTheNameOfARingIsNone) {
  ASSERT_EQ(::mkfifo((folder + "/uroce-pipe-1-0.ring").c_str(), 0600), 0);
  EXPECT_THAT(save_left_rings(folder), testing::ElementsAre(folder + "/uroce-pipe-1-0.ring: it is no regular file"));
  remove_old_rings(folder);
  EXPECT_EQ(count(".ring"), 1u);
}

TEST_F(Store, ACaptureIsNotWrittenThroughALink) {
  Flight flight;
  const auto first = save(flight.read(), "a test", folder);
  ASSERT_TRUE(first.ok());
  const std::string other = folder + "/other";
  std::ofstream(other) << "text";
  ASSERT_TRUE(fs::remove(*first + ".json"));
  ASSERT_TRUE(fs::remove(*first + ".pcapng"));
  fs::create_symlink(other, *first + ".pcapng");
  const auto second = save(flight.read(), "a test", folder);
  ASSERT_TRUE(second.ok()) << second.error();
  EXPECT_EQ(*second, *first);
  EXPECT_FALSE(fs::is_symlink(*second + ".pcapng"));
  EXPECT_EQ(fs::file_size(other), 4u);
}

TEST_F(Store, HalfARecordingIsTakenBack) {
  Flight flight;
  flight.sends_write(1ms, 0x105);
  ASSERT_TRUE(save(flight.read(), "a test", folder).ok());
  const auto error = [&] {
    rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const rlimit little{.rlim_cur = 100, .rlim_max = old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
    auto saved = save(flight.read(), "a test", folder);
    ::setrlimit(RLIMIT_FSIZE, &old);
    return saved.ok() ? "" : saved.error();
  }();
  EXPECT_NE(error.find("File too large"), std::string::npos) << error;
  EXPECT_EQ(count(".json"), 1u);
  EXPECT_EQ(count(".pcapng"), 1u);
}

TEST_F(Store, KilledProcessesDoNotFillTheDisk) {
  const std::string alive = folder + "/uroce-alive-1-0.ring";
  std::ofstream(alive).put('x');
  const Fd owner(::open(alive.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(owner.get(), LOCK_EX), 0);
  for (std::size_t i = 0; i < kRingsLeft + 5; ++i) {
    std::ofstream(folder + "/uroce-killed-" + std::to_string(i) + "-0.ring").put('x');
  }
  remove_old_rings(folder);
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_EQ(count(".ring"), kRingsLeft + 1);
}

TEST(Document, SaysWhatBroke) {
  Flight flight;
  flight.event(1ms, TraceKind::kNak, 2, 0x105, Phase::kReceiving);
  const std::string document = json_of(flight.read(), "a \"test\"");
  EXPECT_NE(document.find("\"why\": \"a \\\"test\\\"\""), std::string::npos);
  EXPECT_NE(document.find("QP_ACCESS_ERR on QP 0x11: we refuse"), std::string::npos);
  EXPECT_NE(document.find("\"words\": \"nak qpn=0x11 code=remote access error psn=0x105\""), std::string::npos);
}

std::string program_in_document(const std::string& name) {
  Flight flight;
  set_text(flight.ring->program, name);
  const std::string document = json_of(flight.read(), "a test"), begin = "\"program\": \"";
  const std::size_t at = document.find(begin) + begin.size();
  return document.substr(at, document.find("\", ", at) - at);
}

TEST(Document, NamesProgramsAsTheyAre) {
  EXPECT_EQ(program_in_document("中文程序"), "中文程序");
  EXPECT_EQ(program_in_document("q\"uo\\te\n\x7f"), "q\\\"uo\\\\te\\u000a\\u007f");
  EXPECT_EQ(program_in_document("Stra\xdf"
                                "e"),
            "Stra\\u00dfe")
      << "no UTF-8: Latin-1, probably";
  EXPECT_EQ(program_in_document("end\xe4\xb8"), "end\\u00e4\\u00b8");
}

TEST(Document, CutsLongNamesBetweenCharacters) {
  EXPECT_EQ(program_in_document("a程序程序程序程序程序程序"), "a程序程序程序程序程序") << "31 bytes are kept";
  EXPECT_EQ(program_in_document("程序程序程序程序程序程序"), "程序程序程序程序程序") << "not 31 bytes";
  EXPECT_EQ(program_in_document(std::string(40, 'x')), std::string(31, 'x'));
}

}  // namespace
}  // namespace uroce::record::test
