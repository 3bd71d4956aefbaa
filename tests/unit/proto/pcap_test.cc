// SPDX-License-Identifier: Apache-2.0
#include "proto/pcap.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "proto/base/fd.h"
#include "proto/capture_lock.h"
#include "proto/pcap_reader.h"
#include "tests/unit/proto/hex.h"

namespace uroce::proto {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Pcap : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "uroce-pcap-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string file(const char* name) const { return folder_ / name; }
  std::string file_with(const char* name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }

 private:
  fs::path folder_;
};

constexpr std::int64_t kTime = 1'700'000'000'123'456'789;

// Anybody who may read a capture can lock all of it: that must not be looked through byte by byte, for ever.
TEST(CaptureLock, WhereEveryPlaceIsTakenThereIsNone) {
  const std::string name = testing::TempDir() + "places." + std::to_string(::getpid());
  const Fd writer(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Fd reader(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  ::unlink(name.c_str());
  struct flock all {};
  all.l_type = F_RDLCK;
  all.l_whence = SEEK_SET;
  all.l_start = 1;
  ASSERT_EQ(::fcntl(reader.get(), F_OFD_SETLK, &all), 0);
  EXPECT_EQ(proto::take_place(writer.get()), EAGAIN);
}

TEST_F(Pcap, WritesWhatItReads) {
  {
    auto writer = PcapWriter::create(file("a.pcap"));
    ASSERT_TRUE(writer.ok()) << writer.error();
    writer->write(kTime, test::kSendFrame);
    writer->write(kTime + 1, test::kAckFrame);
  }
  auto reader = PcapReader::open(file("a.pcap"));
  ASSERT_TRUE(reader.ok()) << reader.error();
  const auto expect_next = [&](std::int64_t time, const std::vector<std::uint8_t>& bytes) {
    const auto next = reader->next();
    ASSERT_TRUE(next.ok() && next->has_value());
    EXPECT_EQ((*next)->time_ns, time);
    EXPECT_EQ((*next)->wire_size, bytes.size());
    EXPECT_EQ(std::vector<std::uint8_t>((*next)->bytes.begin(), (*next)->bytes.end()), bytes);
  };
  expect_next(kTime, test::kSendFrame);
  expect_next(kTime + 1, test::kAckFrame);
  for (int i = 0; i < 2; ++i) {  // the end stays the end
    const auto end = reader->next();
    ASSERT_TRUE(end.ok());
    EXPECT_FALSE(end->has_value());
  }
}

TEST_F(Pcap, PcapngIsReadLikePcapAndKeepsComments) {
  const std::string odd_comment = "uroce: said so";  // 14 bytes: neither it nor the frame fills its last word
  {
    auto writer = PcapWriter::create(file("a.pcapng"));
    ASSERT_TRUE(writer.ok()) << writer.error();
    EXPECT_TRUE(writer->takes_comments());
    EXPECT_EQ(fs::file_size(file("a.pcapng")), 28u + 32u);
    writer->write(kTime, Bytes(test::kSendFrame).first(61), odd_comment);
    writer->write(kTime + 1, test::kAckFrame);
  }
  auto reader = PcapReader::open(file("a.pcapng"));
  ASSERT_TRUE(reader.ok()) << reader.error();
  auto next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, kTime);
  EXPECT_EQ((*next)->wire_size, 61u);
  EXPECT_TRUE(std::equal((*next)->bytes.begin(), (*next)->bytes.end(), test::kSendFrame.begin()));
  next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, kTime + 1);
  EXPECT_EQ((*next)->bytes.size(), test::kAckFrame.size());
  ASSERT_TRUE(reader->next().ok());
  std::ifstream stream(file("a.pcapng"), std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(content, HasSubstr(odd_comment));
  EXPECT_EQ(content.size() % 4, 0u);
}

TEST_F(Pcap, PcapHasNoRoomForComments) {
  auto writer = PcapWriter::create(file("a.pcap"));
  ASSERT_TRUE(writer.ok());
  EXPECT_FALSE(writer->takes_comments());
  writer->write(kTime, test::kSendFrame, "lost");
  EXPECT_EQ(writer->flush(), std::nullopt);
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24 + 16 + test::kSendFrame.size());
}

TEST_F(Pcap, FlushMakesFramesReadable) {
  auto writer = PcapWriter::create(file("a.pcap"));
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24u);  // a valid, empty capture from the start
  writer->write(0, test::kSendFrame);
  EXPECT_EQ(writer->flush(), std::nullopt);
  EXPECT_EQ(fs::file_size(file("a.pcap")), 24 + 16 + test::kSendFrame.size());
}

TEST_F(Pcap, ReadsMicroseconds) {
  const std::string header("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0", 24);
  const std::string frame("\7\0\0\0\5\0\0\0\3\0\0\0\4\0\0\0abc", 19);
  auto reader = PcapReader::open(file_with("us.pcap", header + frame));
  ASSERT_TRUE(reader.ok()) << reader.error();
  const auto next = reader->next();
  ASSERT_TRUE(next.ok() && next->has_value());
  EXPECT_EQ((*next)->time_ns, 7'000'005'000);
  EXPECT_EQ((*next)->bytes.size(), 3u);
  EXPECT_EQ((*next)->wire_size, 4u);
}

TEST_F(Pcap, ErrorsAreSentencesWithThePath) {
  const auto open_error = [](const std::string& path) {
    auto reader = PcapReader::open(path);
    return reader ? std::string("no error") : reader.error();
  };
  EXPECT_EQ(open_error("/nonexistent/a.pcap"), "can't open the capture /nonexistent/a.pcap: No such file or directory");
  const std::string text = file_with("text.pcap", "this is no capture, though long enough for a header");
  EXPECT_THAT(open_error(text), testing::AllOf(HasSubstr("can't read the capture"), HasSubstr(text)));
  const std::string empty = file_with("empty.pcap", "");
  EXPECT_THAT(open_error(empty), HasSubstr(empty));
  const std::string raw =
      file_with("raw.pcap", std::string("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\x65\0\0\0", 24));
  EXPECT_THAT(open_error(raw), HasSubstr("its link type is RAW, not Ethernet"));

  auto writer = PcapWriter::create("/nonexistent/b.pcap");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error(), "can't write the capture /nonexistent/b.pcap: No such file or directory");
}

TEST_F(Pcap, WhereOnlyAnotherUserMayWriteTheErrorSaysSo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a second user";
  ASSERT_EQ(::seteuid(12345), 0);
  const auto writer = PcapWriter::create(file("a.pcap"));  // The folder is root's.
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_FALSE(writer.ok());
  EXPECT_THAT(writer.error(), HasSubstr("Permission denied: it, or its directory, is another user's"));
}

TEST_F(Pcap, CutOffFileIsAnError) {
  const std::string header("\xd4\xc3\xb2\xa1\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0", 24);
  auto reader = PcapReader::open(file_with("cut.pcap", header + std::string("\7\0\0\0\5\0\0\0\3\0\0\0\3\0\0\0ab", 18)));
  ASSERT_TRUE(reader.ok());
  const auto next = reader->next();
  ASSERT_FALSE(next.ok());
  EXPECT_THAT(next.error(), HasSubstr("cut.pcap"));
}

std::vector<std::int64_t> times(const std::string& path) {
  std::vector<std::int64_t> found;
  auto reader = PcapReader::open(path);
  EXPECT_TRUE(reader.ok()) << reader.error();
  for (;;) {
    const auto next = reader->next();
    EXPECT_TRUE(next.ok()) << next.error();
    if (!next.ok() || !*next) return found;
    found.push_back((*next)->time_ns);
  }
}

TEST_F(Pcap, SeveralWritersShareOneFileAndTheNextRunBeginsAnew) {
  for (const char* name : {"a.pcap", "a.pcapng"}) {
    for (int run = 0; run < 2; ++run) {
      auto a = PcapWriter::create(file(name), "a");
      auto b = PcapWriter::create(file(name), "b");
      ASSERT_TRUE(a.ok() && b.ok());
      for (std::int64_t time = 0; time < 4; ++time) {
        PcapWriter& writer = time % 2 == 0 ? *a : *b;
        writer.write(time, test::kSendFrame);
        EXPECT_EQ(writer.flush(), std::nullopt);
      }
      EXPECT_THAT(times(file(name)), testing::ElementsAre(0, 1, 2, 3));
    }
    auto c = PcapWriter::resume(file(name), "c");
    ASSERT_TRUE(c.ok());
    c->write(4, test::kSendFrame);
    EXPECT_EQ(c->flush(), std::nullopt);
    EXPECT_THAT(times(file(name)), testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST_F(Pcap, WhatAKilledWriterLeftHalfWrittenIsCutOff) {
  for (const char* name : {"a.pcap", "a.pcapng"}) {
    for (const std::uintmax_t torn : {1u, 15u, 50u}) {
      auto a = PcapWriter::create(file(name));
      auto b = PcapWriter::create(file(name));
      ASSERT_TRUE(a.ok() && b.ok());
      b->write(1, test::kSendFrame);
      b->write(2, test::kSendFrame);
      EXPECT_EQ(b->flush(), std::nullopt);
      fs::resize_file(file(name), fs::file_size(file(name)) - torn);
      a->write(3, test::kSendFrame);
      EXPECT_EQ(a->flush(), std::nullopt);
      EXPECT_THAT(times(file(name)), testing::ElementsAre(1, 3)) << torn;
    }
  }
}

TEST_F(Pcap, TheLastWriterLeavesWholeWhatAKilledOneLeftHalfWritten) {
  for (const char* name : {"a.pcap", "a.pcapng"}) {
    {
      auto last = PcapWriter::create(file(name));
      auto killed = PcapWriter::create(file(name));
      ASSERT_TRUE(last.ok() && killed.ok());
      killed->write(1, test::kSendFrame);
      killed->write(2, test::kSendFrame);
      EXPECT_EQ(killed->flush(), std::nullopt);
      fs::resize_file(file(name), fs::file_size(file(name)) - 15);
      killed->abandon();
    }
    EXPECT_THAT(times(file(name)), testing::ElementsAre(1));
  }
}

TEST_F(Pcap, WritesRaiseNoSignals) {
  const std::string fifo = file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  auto to_fifo = PcapWriter::create(fifo);
  auto to_file = PcapWriter::create(file("a.pcap"));
  ASSERT_TRUE(to_fifo.ok() && to_file.ok());
  ASSERT_EQ(signal(SIGPIPE, SIG_DFL), SIG_DFL);
  ASSERT_EQ(signal(SIGXFSZ, SIG_DFL), SIG_DFL);
  close(reader);
  to_fifo->write(1, test::kSendFrame);
  EXPECT_THAT(to_fifo->flush().value_or(""), HasSubstr("Broken pipe"));

  to_file->write(1, test::kSendFrame);
  EXPECT_EQ(to_file->flush(), std::nullopt);
  const std::uintmax_t size = fs::file_size(file("a.pcap"));
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  const rlimit tight{size + 40, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  to_file->write(2, test::kSendFrame);
  const auto error = to_file->flush();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_THAT(error.value_or(""), HasSubstr("File too large"));
  EXPECT_EQ(fs::file_size(file("a.pcap")), size) << "whole records";
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE) + sigismember(&pending, SIGXFSZ), 0);
}

/// Whatever the sizes of the packets are, and where the reader stopped.
TEST_F(Pcap, AReaderThatPausesFindsWholeRecords) {
  const std::string fifo = file("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::size_t step : {100u, 1500u, 4096u}) {
    const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
    std::string read;
    const auto read_some = [&](std::size_t most) {
      std::string block(most, '\0');
      const ssize_t got = ::read(reader, block.data(), block.size());
      if (got > 0) read.append(block, 0, static_cast<std::size_t>(got));
      return got > 0;
    };
    {
      auto writer = PcapWriter::create(fifo);
      ASSERT_TRUE(writer.ok()) << writer.error();
      PcapWriter::Error error;
      for (std::size_t i = 0; !error; ++i) {
        for (std::size_t k = 0; k < 20; ++k) writer->write(kTime, std::vector<std::uint8_t>(60 + (i + k) * 7 % step));
        if (i == 10) read_some(4097);
        error = writer->flush();
      }
      EXPECT_THAT(*error, HasSubstr("does not read"));
    }
    while (read_some(1 << 16)) {
    }
    close(reader);
    EXPECT_GT(read.size(), 1u << 18) << "room for bursts";
    auto capture = PcapReader::open(file_with("read.pcapng", read));
    ASSERT_TRUE(capture.ok()) << capture.error();
    for (bool more = true; more;) {
      const auto next = capture->next();
      ASSERT_TRUE(next.ok()) << next.error();
      more = next->has_value();
    }
  }
}

TEST(PcapFull, FullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  auto writer = PcapWriter::create("/dev/full");
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.error(), "can't write the capture /dev/full: No space left on device");
}

}  // namespace
}  // namespace uroce::proto
