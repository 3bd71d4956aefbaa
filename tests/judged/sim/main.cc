// SPDX-License-Identifier: Apache-2.0
// uroce-sim: deterministic simulation of NICs on a hostile network.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "tests/judged/sim/campaign.h"
#include "tools/cli/usage.h"
#include "tools/output/print.h"
#include "tools/output/standard_descriptors.h"
#include "tools/version/version.h"

int main(int argc, char** argv) {
  using namespace uroce::simulator;
  uroce::tools::occupy_standard_descriptors(O_RDONLY);
  CLI::App app{
      "Runs NICs on a simulated network that loses, doubles, delays and damages packets, and judges everything "
      "they do. A seed decides everything; the same seed gives the same run.",
      "uroce-sim"};
  Campaign campaign;
  std::string range;
  app.add_option("--seed", campaign.first, "Run this seed")
      ->type_name("N")
      ->transform(uroce::tools::whole_number<std::uint64_t>().description(""));
  app.add_option("--seeds", range, "Run the seeds FIRST..LAST, until one fails")
      ->type_name("FIRST..LAST")
      ->excludes("--seed");
  app.add_option("--count", campaign.count, "Run this many seeds, from --seed on")
      ->type_name("N")
      ->transform(uroce::tools::whole_number<std::uint64_t>(1).description(""))
      ->excludes("--seeds");
  app.add_option("--pcap", campaign.pcap, "Write every packet sent to this capture (a single seed)")->type_name("FILE");
  app.add_option("--failures", campaign.folder, "Where to write the capture of a seed that fails (default: here)")
      ->type_name("FOLDER");
  app.add_flag("--keep-going", campaign.keep_going, "Go on after a seed that fails");
  app.add_flag("--verbose", campaign.verbose, "Print the scenario and every packet");
  app.add_flag("--wrap", campaign.wrap, "Long runs whose PSNs go all the way round: some 30 s each");
  app.add_flag("--tally", campaign.tally, "Print how often each kind of completion, event and fault came up");
  const std::map<std::string, Sabotage> sabotages = {
      {"crash", Sabotage::kCrash}, {"liveness", Sabotage::kLiveness}, {"correctness", Sabotage::kCorrectness}};
  uroce::tools::add_choice(app, "--sabotage", campaign.sabotage, sabotages, "Break something, to see it reported")
      ->group("");
  app.set_version_flag("--version", uroce::tools::version_text("uroce-sim"));
  app.footer(
      "Exit status: 0 all seeds were clean; 127 a crash (failed assertion, signal, sanitizer); 128 liveness (something "
      "did\n"
      "not happen in time); 129 correctness (something happened that must not); 2 wrong options;\n"
      "1 what was printed is not all there.\n"
      "With --keep-going: of the first seed that failed.");
  try {
    app.parse(argc, argv);
    if (!range.empty()) campaign.set_range(range);
    if (!campaign.pcap.empty() && campaign.count != 1) {
      throw CLI::ValidationError("--pcap", "a capture has the packets of one seed; give --seed N");
    }
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    uroce::tools::print_to(stderr, "uroce-sim: {}\n", uroce::tools::usage_error(app, error, "uroce-sim"));
    return kExitUsage;
  }
  campaign.program = fmt::format("'{}'", argv[0]);  // Its path may have spaces, and the line is to be pasted.
  if (campaign.wrap) campaign.program += " --wrap";
  const int status = campaign.run();
  if (uroce::tools::stdout_is_whole()) return status;
  uroce::tools::print_to(stderr, "uroce-sim: can't write to stdout\n");
  return status != 0 ? status : EXIT_FAILURE;
}
