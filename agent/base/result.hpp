// SPDX-License-Identifier: MIT
#pragma once

#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

#include "agent/base/error.hpp"

namespace andiron {

/// A value or an Error, which a caller cannot drop unseen.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  // NOLINTNEXTLINE(google-explicit-constructor): `return make_error(...)` is the point.
  Result(Error error) : Base(tl::unexpected<Error>(std::move(error))) {}

  /// Puts what was being done in front of the error's context.
  Result wrap(std::string_view doing) && {
    if (!this->has_value()) {
      Error& error = this->error();
      error.context =
          error.context.empty() ? std::string(doing) : std::string(doing) + ": " + error.context;
    }
    return std::move(*this);
  }
};

namespace detail {
template <class T>
T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
}  // namespace detail

/// `auto x = TRY(f());` gives the value, or returns f's error from the enclosing function.
#define TRY(expression)                                                    \
  __extension__({                                                          \
    auto andiron_try_result = (expression);                                \
    if (!andiron_try_result) return std::move(andiron_try_result).error(); \
    ::andiron::detail::take_value(std::move(andiron_try_result));          \
  })

}  // namespace andiron
