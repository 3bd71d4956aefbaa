// SPDX-License-Identifier: Apache-2.0
// Tests of times that are longer where the processor is emulated: they expect those of a real one, wherever they run.
#pragma once

#include <gtest/gtest.h>

#include "engine/run/pace.h"

namespace uroce::test {

class OnAProcessor : public testing::Test {
 protected:
  OnAProcessor() { engine::Pace::assume_emulated(false); }
  ~OnAProcessor() override { engine::Pace::assume_emulated(engine::Pace::is_emulated()); }
};

}  // namespace uroce::test
