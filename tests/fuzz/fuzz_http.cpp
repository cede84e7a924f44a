// SPDX-License-Identifier: MIT
// Bytes as a client may send them, cut as the kernel may cut them: through the server's reader, a
// route table like the agent's, and the JSON of bodies. The cuts come from the first byte. Whole
// and cut input must give the same requests: framing that depends on timing is request smuggling.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/api/json_body.hpp"
#include "agent/api/request_reader.hpp"
#include "agent/api/router.hpp"
#include "agent/api/tcp_gate.hpp"
#include "agent/base/check.hpp"

namespace {

using namespace andiron::api;

// Small, so that the limits are met within the lengths that a fuzzer likes.
constexpr std::size_t kLimit = 2048;

void use_body(const Request& request) {
  const auto body = JsonBody::parse(request.body);
  if (!body) {
    CHECK(body.error().errc() == andiron::Errc::bad_request);
    return;
  }
  const auto known = body->only({"source", "tier", "hold", "wait"});
  const auto source = body->required_string("source");
  if (source) CHECK(source->find('\0') == std::string::npos);
  const auto wait = body->boolean("wait");
  const auto bytes = body->unsigned_integer("bytes", 1000);
  if (bytes && *bytes) CHECK(**bytes <= 1000);
  CHECK(!dump(body->object()).empty());
}

Router make_router() {
  Router router;
  const auto handler = [](const Request& request, const Router::Params& params) {
    for (const auto& [name, value] : params)
      CHECK(!value.empty() && value.find('\0') == std::string::npos);
    use_body(request);
  };
  router.add("GET", "/v1/status", handler);
  router.add("GET", "/v1/models/{name}", handler);
  router.add("POST", "/v1/models/{name}/warm", handler);
  router.add("POST", "/v1/warm", handler);
  router.add("DELETE", "/v1/jobs/{id}", handler);
  return router;
}

/// Of requests over TCP: no page of another site, and no writing without the token.
void pass_gate(const ParsedRequest& parsed) {
  static const BearerToken token = *BearerToken::parse("0123456789abcdef");
  static const andiron::IpAddress peer = *andiron::IpAddress::parse("127.0.0.1");
  TcpGate gate(Door::loopback, token);
  const auto refusal = gate.refuse(peer, parsed, andiron::SteadyTime());
  const auto& claims = parsed.claims;
  const auto given = claims.authorization ? bearer_of(*claims.authorization) : std::nullopt;
  if (refusal) {
    CHECK(refusal->status == 401 || refusal->status == 403);
    CHECK(refusal->body.text().size() < 1000);
    return;
  }
  CHECK(!claims.origin || is_same_origin(*claims.origin, claims.host));
  if (given == "0123456789abcdef") return;
  CHECK(is_loopback_host(claims.host));
  CHECK(parsed.request.method == "GET" || parsed.request.method == "HEAD");
}

std::vector<Request> read_all(std::string_view text, std::size_t piece) {
  std::vector<Request> requests;
  RequestReader reader(kLimit);
  while (true) {
    const RequestReader::Step step = reader.step();
    if (step == RequestReader::Step::request) {
      ParsedRequest parsed = reader.take();
      pass_gate(parsed);
      requests.push_back(std::move(parsed.request));
      CHECK(requests.back().body.size() <= kLimit);
    } else if (step == RequestReader::Step::failed) {
      CHECK(reader.failure().status >= 400 && !reader.failure().body.text().empty());
      return requests;
    } else if (step == RequestReader::Step::need_more) {
      CHECK(reader.buffered() <= kLimit);
      if (text.empty()) return requests;
      const std::size_t size = std::min(piece, text.size());
      reader.append(text.substr(0, size));
      text.remove_prefix(size);
    }
  }
}

auto fields_of(const Request& request) {
  return std::tie(request.method, request.path, request.segments, request.query, request.body,
                  request.accepts_ndjson);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const Router router = make_router();
  const std::size_t piece = std::size_t{data[0]} + 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<Request> whole = read_all(text, text.size());
  const std::vector<Request> cut = read_all(text, piece);
  CHECK(whole.size() == cut.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(fields_of(whole[i]) == fields_of(cut[i]));
    router.dispatch(std::move(whole[i]));
  }
  return 0;
}
