// SPDX-License-Identifier: Apache-2.0
// The functions of libc that libibverbs.so.1 stands in front of, when it is preloaded. Paths of the view are answered
// here; everything else goes to the next function of the same name, untouched.
#pragma once

#define UROCE_EXPORT extern "C" __attribute__((visibility("default"), used))
