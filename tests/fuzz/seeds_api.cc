#include "tests/fuzz/seeds.h"
namespace uroce::fuzz {
void add_api_seeds(std::vector<Seed>&) {}
}  // namespace uroce::fuzz
