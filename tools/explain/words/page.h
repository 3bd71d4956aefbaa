// SPDX-License-Identifier: Apache-2.0
// The files of tools/explain/page, which the build puts into the program.
#pragma once

#include <string_view>

namespace uroce::explain {

extern const std::string_view kPage_html, kPage_css, kPage_js, kTracks_js;

}  // namespace uroce::explain
