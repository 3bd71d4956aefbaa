// SPDX-License-Identifier: Apache-2.0
// Command line, environment and configuration file, and which of them wins; loading a verbs library.
#include "tools/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tools/rdma/failure.h"
#include "tools/version/version.h"

namespace uroce::tools {
namespace {

using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  OptionsTest() { unsetenv("UROCE_BACKEND"); }
  ~OptionsTest() override {
    unsetenv("UROCE_BACKEND");
    if (!file_.empty()) unlink(file_.c_str());
  }

  static std::variant<Options, RefusedOptions, int> parse(Role role, std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "tool");
    // The library explains errors on its own; they are expected here.
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    auto result = parse_options(role, static_cast<int>(arguments.size()), arguments.data());
    ::testing::internal::GetCapturedStdout();
    ::testing::internal::GetCapturedStderr();
    return result;
  }
  static Options good(Role role, const std::vector<const char*>& arguments) {
    auto result = parse(role, arguments);
    if (const auto* options = std::get_if<Options>(&result)) return *options;
    ADD_FAILURE() << "refused";
    return {};
  }
  static int refused(Role role, const std::vector<const char*>& arguments) {
    auto result = parse(role, arguments);
    if (std::holds_alternative<RefusedOptions>(result)) return kExitUsage;
    const int* status = std::get_if<int>(&result);
    return status != nullptr ? *status : -1;
  }
  static std::string why(Role role, const std::vector<const char*>& arguments) {
    auto result = parse(role, arguments);
    const auto* refused = std::get_if<RefusedOptions>(&result);
    return refused != nullptr ? refused->why : "";
  }
  const char* config(const std::string& text) {
    file_ = ::testing::TempDir() + "uroce_options_test." + std::to_string(getpid()) + ".ini";
    std::ofstream(file_) << text;
    return file_.c_str();
  }

 private:
  std::string file_;
};

TEST_F(OptionsTest, Defaults) {
  const Options o = good(Role::kClient, {"10.0.0.1"});
  EXPECT_EQ(o.server, "10.0.0.1");
  EXPECT_EQ(o.device.name, "");
  EXPECT_EQ(o.port, 18515);
  EXPECT_EQ(o.device.gid_index, 1);
  EXPECT_EQ(o.device.ib_port, 1);
  EXPECT_EQ(o.session.workload.qps, 4u);
  EXPECT_EQ(o.session.rts.timeout, 14);
  EXPECT_EQ(o.session.rts.retry_cnt, 7);
  EXPECT_EQ(o.session.rts.rnr_retry, 7);
  EXPECT_EQ(o.backend, Backend::kUroce);
  EXPECT_FALSE(o.session.mtu_chosen);
}

/// Errors are sentences that need no knowledge of the library that parses the line.
TEST_F(OptionsTest, RefusalsSayWhatIsAllowed) {
  const auto client = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "host");
    return why(Role::kClient, arguments);
  };
  const std::string help = ". `tool --help` lists all options.";
  EXPECT_EQ(client({"--backend", "rxe"}), "--backend: 'rxe' is not one of ibverbs,uroce" + help);
  EXPECT_EQ(client({"--lang", "fr"}), "--lang: 'fr' is not one of en,zh" + help);
  EXPECT_EQ(client({"--size"}), "--size needs a value" + help);
  EXPECT_EQ(client({"--pcap", "--json"}),
            "--pcap: a value is missing before '--json' (a file of that name is ./--json)" + help);
  EXPECT_EQ(client({"--size", "1", "--size", "2"}), "--size is given more than once" + help);
  EXPECT_EQ(client({"--gid-index", "one"}), "--gid-index: 'one' is not a number from 0 to 255" + help);
  EXPECT_EQ(client({"--port", "0"}), "--port: '0' is not a number from 1 to 65535" + help);
  EXPECT_EQ(client({"--port", "65536"}), "--port: '65536' is not a number from 1 to 65535" + help);
  EXPECT_EQ(client({"--connect-timeout", "0"}), "--connect-timeout: '0' is not a number from 0.001 to 3600" + help);
  EXPECT_EQ(client({"--connect-timeout", "nan"}), "--connect-timeout: 'nan' is not a number from 0.001 to 3600" + help);
  EXPECT_EQ(client({"--config", "/no/such"}), "can't read '/no/such'" + help);
  EXPECT_EQ(good(Role::kServer, {"--port", "0"}).port, 0);
  setenv("UROCE_BACKEND", "rxe", 1);
  EXPECT_EQ(client({}), "UROCE_BACKEND: 'rxe' is not one of ibverbs,uroce" + help);
  EXPECT_EQ(client({"--backend", "mlx"}), "--backend: 'mlx' is not one of ibverbs,uroce" + help);
}

/// As `uroce run` reads them. CLI11 alone takes 010 for 8, and what is too large for the largest number.
TEST_F(OptionsTest, WholeNumbersAreDecimalAndInRange) {
  const Options o = good(Role::kClient, {"host", "--seed", "010", "--port", "010", "--num-qp", "010", "--mtu", "0512",
                                         "--timeout", "010", "--stall-limit", "010"});
  EXPECT_EQ(o.session.seed, 10u);
  EXPECT_EQ(o.port, 10);
  EXPECT_EQ(o.session.workload.qps, 10u);
  EXPECT_EQ(o.session.workload.mtu, 512u);
  EXPECT_EQ(o.session.rts.timeout, 10);
  EXPECT_EQ(o.session.stall_limit, std::chrono::seconds(10));
  const std::string help = ". `tool --help` lists all options.";
  for (const std::string text : {"0x10", "0b1", "1'000", "+1", "-1", "1.0", "18446744073709551616"}) {
    for (const char* option : {"--seed", "--stall-limit", "--port", "--iters", "--num-qp", "--gid-index", "--depth"}) {
      EXPECT_THAT(why(Role::kClient, {"host", option, text.c_str()}),
                  HasSubstr(option + (": '" + text) + "' is not a number from "));
    }
    setenv("UROCE_SEED", text.c_str(), 1);
    EXPECT_EQ(why(Role::kServer, {}),
              "UROCE_SEED: '" + text + "' is not a number from 0 to 18446744073709551615" + help);
  }
  setenv("UROCE_SEED", "010", 1);
  EXPECT_EQ(good(Role::kServer, {}).session.seed, 10u);
  setenv("UROCE_SEED", "18446744073709551615", 1);
  EXPECT_EQ(good(Role::kServer, {}).session.seed, ~std::uint64_t{0});
  unsetenv("UROCE_SEED");
}

TEST_F(OptionsTest, AnUnknownOptionIsNamed) {
  const std::string help = ". `tool --help` lists all options.";
  EXPECT_EQ(why(Role::kClient, {"host", "--foo"}), "unknown option --foo" + help);
  EXPECT_EQ(why(Role::kClient, {"host", "--foo", "16"}), "unknown option --foo" + help);
  EXPECT_EQ(why(Role::kClient, {"--foo"}), "unknown option --foo" + help) << "before the server that is missing";
  EXPECT_EQ(why(Role::kServer, {"-x"}), "unknown option -x" + help);
  EXPECT_EQ(why(Role::kServer, {"uroce0", "1", "1", "1", "more"}), "unexpected argument 'more'" + help);
}

TEST_F(OptionsTest, PositionalAndFlagsMeanTheSame) {
  const Options p = good(Role::kClient, {"host", "dev1", "4000", "2", "16"});
  const Options f = good(
      Role::kClient, {"--server", "host", "--device", "dev1", "--port", "4000", "--gid-index", "2", "--num-qp", "16"});
  for (const Options& o : {p, f}) {
    EXPECT_EQ(o.server, "host");
    EXPECT_EQ(o.device.name, "dev1");
    EXPECT_EQ(o.port, 4000);
    EXPECT_EQ(o.device.gid_index, 2);
    EXPECT_EQ(o.session.workload.qps, 16u);
  }
  const Options s = good(Role::kServer, {"dev1", "4000", "2", "16"});
  EXPECT_EQ(s.device.name, "dev1");
  EXPECT_EQ(s.session.workload.qps, 16u);
  EXPECT_EQ(good(Role::kServer, {}).session.workload.qps, kMaxQps) << "as many as the client wants";
}

TEST_F(OptionsTest, Workload) {
  const Options o = good(Role::kClient, {"host", "--op", "write-imm", "--size", "1M", "--mtu", "2048", "--iters", "7",
                                         "--depth", "3", "--bidir", "--verify", "--inline", "--sges", "4", "--events"});
  const Workload& w = o.session.workload;
  EXPECT_EQ(w.mix, Mix::kWriteImm);
  EXPECT_EQ(w.size, 1u << 20);
  EXPECT_EQ(w.mtu, 2048u);
  EXPECT_TRUE(o.session.mtu_chosen);
  EXPECT_EQ(w.iterations, 7u);
  EXPECT_EQ(w.depth, 3u);
  EXPECT_EQ(w.sges, 4u);
  EXPECT_TRUE(w.bidirectional && w.verify && w.inline_data && w.events);
}

TEST_F(OptionsTest, CommandLineBeatsEnvironmentBeatsFileBeatsDefault) {
  const char* file = config("backend = ibverbs\nnum-qp = 9\n");
  EXPECT_EQ(good(Role::kServer, {"--config", file}).backend, Backend::kIbverbs);
  EXPECT_EQ(good(Role::kServer, {"--config", file}).session.workload.qps, 9u);
  EXPECT_EQ(good(Role::kServer, {"--config", file, "--num-qp", "3"}).session.workload.qps, 3u);
  setenv("UROCE_BACKEND", "uroce", 1);
  EXPECT_EQ(good(Role::kServer, {"--config", file}).backend, Backend::kUroce);
  EXPECT_EQ(good(Role::kServer, {"--config", file, "--backend", "ibverbs"}).backend, Backend::kIbverbs);
  setenv("UROCE_BACKEND", "ibverbs", 1);
  EXPECT_EQ(good(Role::kServer, {}).backend, Backend::kIbverbs);
  EXPECT_EQ(good(Role::kServer, {"--backend", "uroce"}).backend, Backend::kUroce);
}

TEST_F(OptionsTest, OneFileServesBothTools) {
  const char* file = config("port = 4000\nop = \"read\"\nverify = true\nloop = true\nserver = \"host\"\n");
  EXPECT_TRUE(good(Role::kServer, {"--config", file}).loop);
  const Options client = good(Role::kClient, {"--config", file});
  EXPECT_EQ(client.session.workload.mix, Mix::kRead);
  EXPECT_TRUE(client.session.workload.verify);
  EXPECT_EQ(client.server, "host");
}

TEST_F(OptionsTest, MistakesEndWithStatusTwo) {
  EXPECT_EQ(refused(Role::kClient, {}), kExitUsage);  // no server
  EXPECT_EQ(refused(Role::kClient, {"host", "--op", "teleport"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--size", "3x"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--size", "3G"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--mtu", "1500"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--num-qp", "0"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--num-qp", "1025"}), kExitUsage);
  EXPECT_EQ(refused(Role::kClient, {"host", "--timeout", "32"}), kExitUsage);
  EXPECT_EQ(refused(Role::kServer, {"--port", "65536"}), kExitUsage);
  EXPECT_EQ(refused(Role::kServer, {"--op", "send"}), kExitUsage);
  EXPECT_EQ(refused(Role::kServer, {"--config", "no-such-file.ini"}), kExitUsage);
  EXPECT_EQ(refused(Role::kServer, {"--config", config("num-pq = 4\n")}), kExitUsage);
  setenv("UROCE_BACKEND", "hardware", 1);
  EXPECT_EQ(refused(Role::kServer, {}), kExitUsage);
}

TEST_F(OptionsTest, MistakesInAFileAreToldByFileAndLine) {
  const auto mistake = [this](const std::string& text) {
    const std::string file = config(text);
    const std::string sentence = why(Role::kClient, {"host", "--config", file.c_str()});
    EXPECT_TRUE(sentence.starts_with(file)) << sentence;
    return sentence.substr(std::min(file.size(), sentence.size()));
  };
  EXPECT_THAT(mistake("# ours\nfaults = loss=1%,dup=1%\n"), HasSubstr(":2: put quotes around"));
  EXPECT_THAT(mistake("num-pq = 4\n"), HasSubstr(":1: there is no option 'num-pq'"));
  EXPECT_THAT(mistake("num-qp = 4\n[client]\n"), HasSubstr(":2: there are no sections; remove [client]"));
  EXPECT_THAT(mistake("num-qp\n"), HasSubstr(":1: write: OPTION = VALUE"));
  EXPECT_THAT(mistake("num-qp = 4000\n"), HasSubstr(":1: --num-qp"));
  EXPECT_EQ(good(Role::kClient, {"host", "--config", config("faults = \"loss=1%,dup=1%\"\n")}).faults,
            "loss=1%,dup=1%");
}

TEST_F(OptionsTest, WithoutAServerTheClientAsksForOne) { EXPECT_THAT(why(Role::kClient, {}), HasSubstr("tool HOST")); }

/// Debian's rdmacm-utils has an rdma_server, too: our package calls it uroce-server.
TEST_F(OptionsTest, AProgramHasTheNameByWhichItIsCalled) {
  const std::vector<const char*> words = {"/usr/bin/uroce-server", "--version"};
  ::testing::internal::CaptureStdout();
  parse_options(Role::kServer, static_cast<int>(words.size()), words.data());
  EXPECT_TRUE(::testing::internal::GetCapturedStdout().starts_with("uroce-server "));
  EXPECT_EQ(good(Role::kServer, {}).program, "tool");
}

TEST_F(OptionsTest, HelpIsNoFailure) { EXPECT_EQ(refused(Role::kClient, {"--help"}), kExitOk); }

TEST(LoadVerbs, AMissingLibraryNamesThePackagesAndTheAlternative) {
  ibv::VerbsTable table;
  const auto error = load_verbs("libibverbs-that-is-not-there.so.1", table);
  ASSERT_TRUE(error);
  EXPECT_NE(error->find("install libibverbs1 and ibverbs-providers"), std::string::npos) << *error;
  EXPECT_NE(error->find("--backend uroce"), std::string::npos) << *error;
}

TEST(LoadVerbs, AnotherLibraryIsRefused) {
  ibv::VerbsTable table;
  EXPECT_TRUE(load_verbs("libm.so.6", table));
}

TEST(LoadVerbs, TheSystemsLibraryHasEveryFunction) {
  ibv::VerbsTable table;
  if (const auto error = load_verbs("libibverbs.so.1", table)) GTEST_SKIP() << *error;
#define UROCE_VERB(ret, name, params, args, version) EXPECT_NE(table.name, nullptr) << #name;
#include "verbs/ibverbs/catalogue/functions.def"
#undef UROCE_VERB
}

TEST(InstalledNames, StandWhereverATextHasTheOthers) {
  EXPECT_EQ(with_installed_names("rdma_server waits; rdma_client asks rdma_server, as each rdma_client",
                                 "the_rdma_server", "it"),
            "the_rdma_server waits; it asks the_rdma_server, as each it");
}

}  // namespace
}  // namespace uroce::tools
