// SPDX-License-Identifier: Apache-2.0
// What programs still hold when its context is closed, and destroy later, as destructors and garbage collectors do. The
// NIC has forgotten it; the structures stay until they are destroyed, and so does the context that they point to.
#pragma once

#include "verbs/ibverbs/objects/objects.h"

namespace uroce::ibv {

/// Deletes a closed context, or lets it wait until its last object is destroyed.
void leave(Context* context);

/// Frees `object`, which is one of `kind`, if its context is closed. False, and nothing done, if it is open: then there
/// is a NIC to tell.
template <class Object>
bool destroy_leftover(Context& context, std::unordered_set<Object*> Context::*kind, Object* object);

}  // namespace uroce::ibv
