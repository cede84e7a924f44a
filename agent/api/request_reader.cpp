// SPDX-License-Identifier: MIT
// The one user of Beast, which costs seconds a translation unit: its parser knows the rules of
// HTTP's framing (lengths, chunks, folded headers). What goes out is simple enough to print.
#include <utility>  // first: Boost 1.74 needs it in C++20
// clang-format off
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
// clang-format on

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "agent/api/request_reader.hpp"
#include "agent/api/target.hpp"

namespace andiron::api {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;
using Fields = http::fields;

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Whether a header of media ranges, all its lines together, names this type. Weights do not
/// matter here: nobody lists NDJSON to say that it is unwelcome.
bool names_type(const Fields& fields, http::field name, std::string_view type) {
  const auto [first, last] = fields.equal_range(name);
  for (auto line = first; line != last; ++line) {
    std::string_view rest = view(line->value());
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view item = rest.substr(0, comma);
      if (equal_ignoring_case(trimmed(item.substr(0, item.find(';'))), type)) return true;
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
  }
  return false;
}

/// A header that says one thing, where it is there.
template <class Name>
std::optional<std::string> value_of(const Fields& fields, const Name& name) {
  const auto place = fields.find(name);
  if (place == fields.end()) return std::nullopt;
  return std::string(trimmed(view(place->value())));
}

}  // namespace

class RequestReader::Impl {
 public:
  explicit Impl(std::size_t limit) : limit_(limit) {}

  void append(std::string_view bytes) {
    buffer_.erase(0, used_);
    used_ = 0;
    buffer_.append(bytes);
  }

  Step step() {
    if (failed_) return Step::failed;
    // Beast reports by error codes; what its containers may throw ends here.
    try {
      return parse();
    } catch (const std::exception&) {
      return fail(400, make_error(Errc::bad_request, "the request cannot be parsed"));
    }
  }

  ParsedRequest take() {
    ParsedRequest parsed = std::move(ready_);
    ready_ = {};
    parser_.reset();
    return parsed;
  }

  const Response& failure() const noexcept { return failure_; }
  bool in_request() const noexcept { return parser_.has_value() || buffered() != 0; }
  std::size_t buffered() const noexcept { return buffer_.size() - used_; }

 private:
  Step parse() {
    if (!parser_) {
      // An empty line before a request is tolerated (RFC 9112, 2.2).
      while (buffered() != 0 && (buffer_[used_] == '\r' || buffer_[used_] == '\n'))
        ++used_;
      if (buffered() == 0) return Step::need_more;
      begin();
    }
    while (!parser_->is_done()) {
      if (buffered() == 0) return Step::need_more;
      boost::beast::error_code error;
      const std::size_t taken =
          parser_->put(boost::asio::const_buffer(buffer_.data() + used_, buffered()), error);
      used_ += taken;
      size_ += taken;
      const bool incomplete = error == http::error::need_more;
      if (size_ > limit_ || (incomplete && size_ + buffered() > limit_)) return too_large();
      if (incomplete) return Step::need_more;
      // Beast refuses a long Content-Length as soon as it has the header.
      if (error == http::error::body_limit) header_seen_ = true;
      if (error == http::error::header_limit || error == http::error::body_limit)
        return too_large();
      if (error) return fail(400, make_error(Errc::bad_request, error.message()));
      if (!header_seen_ && parser_->is_header_done()) {
        header_seen_ = true;
        if (const auto verdict = check_header()) return *verdict;
      }
    }
    return finish();
  }

  void begin() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(limit_, UINT32_MAX)));
    parser_->body_limit(limit_);
    header_seen_ = false;
    size_ = 0;
  }

  /// What must be decided before the body comes; nullopt goes on.
  std::optional<Step> check_header() {
    const auto& message = parser_->get();
    const auto encoding = message.find(http::field::transfer_encoding);
    // Beast takes "gzip" alone as "no body", and what follows as the next request: smuggling.
    if (encoding != message.end() &&
        (message.count(http::field::transfer_encoding) != 1 || message.version() < 11 ||
         !equal_ignoring_case(trimmed(view(encoding->value())), "chunked")))
      return fail(400, make_error(Errc::bad_request, "only Transfer-Encoding: chunked is known"));
    // Twice, each of these would be one thing to us and another to a proxy before us.
    for (const http::field name :
         {http::field::host, http::field::origin, http::field::authorization}) {
      if (message.count(name) > 1) {
        return fail(400, make_error(Errc::bad_request,
                                    std::string(view(http::to_string(name))) + " is there twice"));
      }
    }
    if (const auto length = parser_->content_length();
        length && (*length > limit_ || size_ + *length > limit_))
      return too_large();
    const auto expect = message.find(http::field::expect);
    const bool waits = expect != message.end() && message.version() >= 11 &&
                       equal_ignoring_case(trimmed(view(expect->value())), "100-continue");
    if (waits && !parser_->is_done() && buffered() == 0) return Step::send_continue;
    return std::nullopt;
  }

  Step finish() {
    auto message = parser_->release();
    auto target = split_target(view(message.target()));
    if (!target) return fail(400, target.error());
    ready_ = {};
    Request& request = ready_.request;
    request.method = std::string(view(message.method_string()));
    request.path = std::move(target->path);
    request.segments = std::move(target->segments);
    request.query = std::move(target->query);
    request.accepts_ndjson = names_type(message, http::field::accept, "application/x-ndjson");
    ready_.claims.host = value_of(message, http::field::host).value_or("");
    ready_.claims.origin = value_of(message, http::field::origin);
    ready_.claims.for_other_site =
        value_of(message, "Sec-Fetch-Site").value_or("") == "cross-site" &&
        value_of(message, "Sec-Fetch-Mode").value_or("") != "navigate";
    ready_.claims.authorization = value_of(message, http::field::authorization);
    ready_.keep_alive = message.keep_alive();
    ready_.http_1_0 = message.version() < 11;
    request.body = std::move(message.body());
    return Step::request;
  }

  Step too_large() {
    return fail(header_seen_ ? 413 : 431,
                make_error(Errc::too_large, header_seen_ ? "the request" : "the request's header"));
  }

  Step fail(unsigned status, const Error& error) {
    failure_ = error_response(error);
    failure_.status = status;
    failed_ = true;
    return Step::failed;
  }

  const std::size_t limit_;
  std::string buffer_;
  std::size_t used_ = 0;  // bytes of buffer_ that are parsed
  std::size_t size_ = 0;  // bytes of this request that are parsed
  std::optional<Parser> parser_;
  bool header_seen_ = false;
  bool failed_ = false;
  ParsedRequest ready_;
  Response failure_;
};

RequestReader::RequestReader(std::size_t limit) : impl_(std::make_unique<Impl>(limit)) {}
RequestReader::~RequestReader() = default;
void RequestReader::append(std::string_view bytes) { impl_->append(bytes); }
RequestReader::Step RequestReader::step() { return impl_->step(); }
ParsedRequest RequestReader::take() { return impl_->take(); }
const Response& RequestReader::failure() const noexcept { return impl_->failure(); }
bool RequestReader::in_request() const noexcept { return impl_->in_request(); }
std::size_t RequestReader::buffered() const noexcept { return impl_->buffered(); }

}  // namespace andiron::api
