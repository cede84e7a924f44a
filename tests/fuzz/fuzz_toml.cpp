// SPDX-License-Identifier: MIT
#include <cstdint>
#include <string_view>

#include "agent/base/check.hpp"
#include "agent/config/compile.hpp"
#include "agent/config/diagnostics.hpp"
#include "agent/config/toml_string.hpp"
#include "agent/config/utf8.hpp"

namespace {

void check_printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = andiron::config::utf8_length(text);
    CHECK(length > 0);
    CHECK(!andiron::config::is_control(text.front()));
    text.remove_prefix(length);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace andiron::config;
  // NOLINTNEXTLINE: libFuzzer gives bytes, and text is what is tested.
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const Compiled compiled = compile(text, "fuzz.toml");
  CHECK(compiled.errors.size() <= kMaxDiagnostics + 1);
  for (const Diagnostic& error : compiled.errors)
    check_printable(error.to_string());

  // Whatever the bytes: a string of ours is one that the parser takes.
  if (size <= 1024) {
    const std::string quoted_text = to_toml_string(text);
    check_printable(quoted_text);
    CHECK(parse_toml("x = " + quoted_text).has_value());
  }
  return 0;
}
