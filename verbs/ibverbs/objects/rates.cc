// SPDX-License-Identifier: Apache-2.0
// InfiniBand's names of link rates, as numbers (IBTA Vol 1, 9.11?; values as ibv_rate_to_mbps(3) has them).
#include <algorithm>
#include <iterator>

#include "verbs/ibverbs/catalogue/impl.h"

namespace uroce::ibv::impl {
namespace {

constexpr int kNone = 0;

struct Rate {
  enum ibv_rate rate;
  int mult;  ///< Multiple of 2.5 Gb/s, rounded; kNone for those that came between two and have no agreed one.
  int mbps;
};

constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},         {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},       {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},      {IBV_RATE_120_GBPS, 48, 120000},
    {IBV_RATE_14_GBPS, kNone, 14062},   {IBV_RATE_56_GBPS, kNone, 56250},   {IBV_RATE_112_GBPS, kNone, 112500},
    {IBV_RATE_168_GBPS, kNone, 168750}, {IBV_RATE_25_GBPS, kNone, 25781},   {IBV_RATE_100_GBPS, kNone, 103125},
    {IBV_RATE_200_GBPS, kNone, 206250}, {IBV_RATE_300_GBPS, kNone, 309375}, {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},   {IBV_RATE_600_GBPS, 240, 637500},
    {IBV_RATE_800_GBPS, 320, 850000},   {IBV_RATE_1200_GBPS, 480, 1275000},
};

/// The row whose `field` is `value`, or nullptr.
template <class T>
const Rate* row(T Rate::*field, T value) {
  const auto found =
      std::find_if(std::begin(kRates), std::end(kRates), [=](const Rate& r) { return r.*field == value; });
  return found == std::end(kRates) ? nullptr : found;
}

}  // namespace

int ibv_rate_to_mult(enum ibv_rate rate) {
  const Rate* const r = row(&Rate::rate, rate);
  return r == nullptr || r->mult == kNone ? -1 : r->mult;
}
enum ibv_rate mult_to_ibv_rate(int mult) {
  const Rate* const r = row(&Rate::mult, mult);
  return r == nullptr || mult == kNone ? IBV_RATE_MAX : r->rate;
}
int ibv_rate_to_mbps(enum ibv_rate rate) {
  const Rate* const r = row(&Rate::rate, rate);
  return r == nullptr ? -1 : r->mbps;
}
enum ibv_rate mbps_to_ibv_rate(int mbps) {
  const Rate* const r = row(&Rate::mbps, mbps);
  return r == nullptr ? IBV_RATE_MAX : r->rate;
}

}  // namespace uroce::ibv::impl
