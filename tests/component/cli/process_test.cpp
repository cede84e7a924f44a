// SPDX-License-Identifier: MIT
// The real andironctl against an agent that is scripted byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "tests/component/cli/fake_agent.hpp"
#include "tests/component/cli/process.hpp"
#include "tests/support/temp_dir.hpp"

namespace andiron::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kModel =
    R"({"name":"assistant","source":"/m/a.gguf","files":1,"bytes":2019377376,"state":"warm",)"
    R"("priority":"interactive","want":{"tier":"page-cache","hold":"locked"},"tiers":)"
    R"({"page-cache":{"resident_bytes":2019377376,"locked_bytes":2019377376,"hold":"locked"}},)"
    R"("explain":["It is warm.","Nobody evicted it."]})";
constexpr const char* kNoModel =
    R"({"error":{"code":"model_not_found","message":"no such model"}})";

std::string running(std::uint64_t done, bool joined = false) {
  return "{\"job\":7,\"state\":\"running\",\"done_bytes\":" + std::to_string(done) +
         ",\"total_bytes\":2019377376" + (joined ? ",\"joined\":true}\n" : "}\n");
}
std::string done(const std::string& more = "") {
  return R"({"job":7,"state":"done","done_bytes":2019377376,"model":)" + std::string(kModel) +
         more + "}\n";
}

Ended run(const FakeAgent& agent, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--socket", agent.socket()});
  return Process(arguments).wait();
}

/// An agent that answers every request the same.
FakeAgent::Script answers(int status, std::string body) {
  return [status, body = std::move(body)](const SeenRequest&, Peer& peer) {
    peer.respond(status, body);
  };
}

/// A warm that gives these lines and ends.
FakeAgent::Script warms(std::vector<std::string> lines) {
  return [lines = std::move(lines)](const SeenRequest&, Peer& peer) {
    peer.begin_chunked();
    for (const std::string& line : lines)
      peer.send_chunk(line);
    peer.end_chunks();
  };
}

TEST(NoAgent, IsThreeAndSaysWhy) {
  const TempDir folder;
  const Ended missing = Process({"--socket", (folder / "none").string(), "status"}).wait();
  EXPECT_EQ(missing.status, 3);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, StartsWith("andironctl: no agent runs at "));
  EXPECT_THAT(missing.err, HasSubstr("there is no such socket"));
  EXPECT_THAT(missing.err, EndsWith("(unavailable)\n"));

  const Ended refused = Process({"status"}, Process::Output::pipes,
                                {"ANDIRON_SOCKET=" + folder.write("file", "not a socket").string()})
                            .wait();
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("nobody listens"));

  const Ended json =
      Process({"warm", "x", "--json", "--socket", (folder / "none").string()}).wait();
  EXPECT_EQ(json.status, 3);
  EXPECT_EQ(json.err, "");
  EXPECT_THAT(json.out, StartsWith(R"({"error":{"code":"unavailable","message":"no agent runs)"));
}

TEST(NoAgent, TooLongASocketPathIsUsage) {
  EXPECT_EQ(Process({"--socket", "/" + std::string(200, 'x'), "status"}).wait().status, 2);
}

TEST(Usage, IsTwoAndOnStandardError) {
  const Ended ended = Process({"warm"}).wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, StartsWith("andironctl: "));
}

TEST(Help, IsZeroAndOnStandardOutput) {
  const Ended ended = Process({"--help"}).wait();
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.out, HasSubstr("Exit status: 0 done, 1 failed, 2 wrong usage, 3 no agent."));
  EXPECT_EQ(ended.err, "");
}

TEST(Output, ThatCannotBeWrittenIsAFailure) {
  const Ended ended = Process({"--version"}).wait();
  EXPECT_EQ(ended.status, 0);
  // /dev/full is written to by a shell's redirection, which is how it happens.
  const std::string command = std::string(ANDIRONCTL) + " --version >/dev/full 2>/dev/null";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST(Json, PassesBodiesUnchanged) {
  const std::string body = "{ \"version\" : \"9\",\n\t\"unknown\":[1,2.50,\"\\u001b\"] }";
  FakeAgent agent(answers(200, body));
  for (const char* verb : {"status", "models", "plan", "doctor", "jobs", "reload"}) {
    const Ended ended = run(agent, {verb, "--json"});
    EXPECT_EQ(ended.status, 0) << verb;
    EXPECT_EQ(ended.out, body) << verb;
    EXPECT_EQ(ended.err, "") << verb;
  }
}

TEST(Json, PassesErrorsUnchanged) {
  FakeAgent agent(answers(404, kNoModel));
  const Ended ended = run(agent, {"--json", "explain", "nobody"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.out, kNoModel);
  EXPECT_EQ(ended.err, "");
}

TEST(Json, IsTheSameByteByByteAndChunked) {
  const std::string body = R"({"models":[{"name":"a"}]})";
  FakeAgent agent([&](const SeenRequest&, Peer& peer) {
    peer.send_slowly("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const char c : body)
      peer.send_chunk({&c, 1});
    peer.send_slowly("0\r\n\r\n");
  });
  EXPECT_EQ(run(agent, {"--json", "models"}).out, body);
}

TEST(People, ReadErrorsOnStandardError) {
  FakeAgent agent(answers(404, kNoModel));
  const Ended ended = run(agent, {"drop", "nobody"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "andironctl: no such model (model_not_found)\n");
}

TEST(People, ReadAllThatIsWrongWithAConfiguration) {
  FakeAgent agent(answers(400, R"({"error":{"code":"bad_config","message":"kept the old one",)"
                               R"("details":["a.toml:1:2: x","a.toml:3:4: \u001b[2J"]}})"));
  const Ended ended = run(agent, {"reload"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err,
            "andironctl: kept the old one (bad_config)\n  a.toml:1:2: x\n"
            "  a.toml:3:4: \\x1b[2J\n");
}

TEST(People, AreNotSteeredByNames) {
  FakeAgent agent(answers(200, R"({"models":[{"name":"\u001b]0;x\u0007","state":"warm"}]})"));
  const Ended ended = run(agent, {"models"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.out, HasSubstr("\\x1b]0;x\\x07"));
  EXPECT_THAT(ended.out, Not(HasSubstr("\x1b")));
}

TEST(People, ReadWhyAModelIsAsItIs) {
  FakeAgent agent(answers(200, kModel));
  const Ended ended = run(agent, {"explain", "a/b c"});
  EXPECT_EQ(ended.out, "It is warm.\nNobody evicted it.\n");
  EXPECT_EQ(agent.seen(1).at(0).line, "GET /v1/models/a%2Fb%20c HTTP/1.1");
}

TEST(Requests, SayWhatTheApiWants) {
  FakeAgent agent(answers(200, kModel));
  run(agent, {"drop", "assistant", "--keep-pages"});
  run(agent, {"drop", "assistant"});
  run(agent, {"jobs", "--cancel", "7"});
  const std::vector<SeenRequest> seen = agent.seen(3);
  EXPECT_EQ(seen.at(0).line, "POST /v1/models/assistant/drop HTTP/1.1");
  EXPECT_EQ(seen.at(0).body, R"({"keep_pages":true})");
  EXPECT_THAT(seen.at(0).headers, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_EQ(seen.at(1).body, "{}");
  EXPECT_EQ(seen.at(2).line, "DELETE /v1/jobs/7 HTTP/1.1");
}

TEST(Doctor, WithoutAnAgentSaysWhatOneWouldGet) {
  const TempDir folder;
  const std::string socket = (folder / "none").string();
  const Ended people = Process({"doctor", "--socket", socket}).wait();
  EXPECT_EQ(people.status, 0);
  EXPECT_THAT(people.out, StartsWith("no agent runs at " + socket + ": there is no such socket"));
  EXPECT_THAT(people.out, HasSubstr("\nCAPABILITY "));
  EXPECT_THAT(people.out, HasSubstr("\nmincore "));
  EXPECT_THAT(people.out, HasSubstr("\nio_uring "));
  EXPECT_EQ(people.err, "");
  const Ended json = Process({"doctor", "--json", "--socket", socket}).wait();
  EXPECT_EQ(json.status, 0);
  EXPECT_THAT(json.out, StartsWith(R"({"capabilities":[{"name":"agent","reason":"no agent runs)"));
}

TEST(Doctor, AsksAnAgentThatIsThere) {
  FakeAgent agent(answers(200, R"({"capabilities":[{"name":"psi-io","state":"on"}]})"));
  const Ended ended = run(agent, {"doctor"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, "CAPABILITY  STATE  WHY\npsi-io      on\n");
}

TEST(Resolve, WithoutAnAgentLooksItself) {
  const TempDir folder;
  folder.write("weights.bin", "abc");
  folder.write("tokenizer.json", "{}");
  const std::string socket = (folder / "none").string();
  const std::string weights = (folder / "weights.bin").string();
  const Ended people =
      Process({"--socket", socket, "resolve", "weights.bin", "--also", "tokenizer.json"},
              Process::Output::pipes, {}, folder.path().string())
          .wait();
  EXPECT_EQ(people.status, 0) << people.err;
  EXPECT_THAT(people.out, StartsWith(weights + ": 5 B in 2 files\n"));
  EXPECT_THAT(people.out, HasSubstr("/tokenizer.json (companion)   2 B\n"));
  const Ended json = Process({"--socket", socket, "resolve", weights, "--json"}).wait();
  EXPECT_EQ(json.status, 0);
  EXPECT_THAT(json.out, HasSubstr("\"path\":\"" + weights + "\""));
  EXPECT_THAT(json.out, HasSubstr("\"tensors\":[]"));
}

TEST(Resolve, WithoutAnAgentFailsWithTheSameCodes) {
  const TempDir folder;
  folder.write("bad.gguf", "no magic");
  const std::string socket = (folder / "none").string();
  const Ended missing =
      Process({"--socket", socket, "resolve", (folder / "nothing.gguf").string()}).wait();
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, EndsWith("(source_not_found)\n"));
  const Ended bad =
      Process({"--socket", socket, "--json", "resolve", (folder / "bad.gguf").string()}).wait();
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.out, StartsWith(R"({"error":{"code":"bad_format")"));
}

TEST(Resolve, AsksTheAgentUnlessToldNotTo) {
  const TempDir folder;
  const std::string weights = folder.write("weights.bin", "abc").string();
  FakeAgent agent(answers(200, R"({"source":"s","files":[],"bytes":0})"));
  EXPECT_EQ(run(agent, {"resolve", weights}).out, "s: 0 B in 0 files\nFILE  SIZE\n");
  EXPECT_EQ(run(agent, {"resolve", "ollama:x", "--json"}).status, 0);
  EXPECT_THAT(run(agent, {"resolve", weights, "--local"}).out, StartsWith(weights));
  const std::vector<SeenRequest> seen = agent.seen(2);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen.at(0).body, "{\"also\":[],\"source\":\"" + weights + "\",\"tensors\":false}");
  EXPECT_EQ(seen.at(1).body, R"({"also":[],"source":"ollama:x","tensors":true})");
}

class BrokenAnswer : public ::testing::TestWithParam<const char*> {};

TEST_P(BrokenAnswer, IsAFailureAndNoHang) {
  FakeAgent agent([](const SeenRequest&, Peer& peer) { peer.send(GetParam()); });
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"warm", "assistant"},
                                             {"events"},
                                             {"events", "--follow"},
                                             {"--json", "plan"}}) {
    const Ended ended = run(agent, verb);
    EXPECT_EQ(ended.status, 1) << verb.at(0) << ended.out << ended.err;
    EXPECT_FALSE(ended.out.empty() && ended.err.empty()) << verb.at(0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenAnswer,
    ::testing::Values("", "\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nContent-Le",
                      "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\"",
                      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"job"));

TEST(BrokenBody, IsAFailure) {
  for (const char* body : {"", "null", "[", "{\"models\":[", "<html>"}) {
    FakeAgent agent(answers(200, body));
    const Ended ended = run(agent, {"models"});
    EXPECT_EQ(ended.status, 1) << body;
    EXPECT_THAT(ended.err, HasSubstr("(bad_format)"));
  }
}

TEST(Warm, InAPipeSaysOneLine) {
  FakeAgent agent(warms({running(0), running(1000000000), done()}));
  const Ended ended = run(agent, {"warm", "assistant"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.out, StartsWith("assistant: warm, 1.9 GiB of 1.9 GiB resident, locked, in "));
  EXPECT_THAT(ended.out, EndsWith("B/s)\n"));
  EXPECT_EQ(ended.err, "");
  const SeenRequest seen = agent.seen(1).at(0);
  EXPECT_EQ(seen.line, "POST /v1/models/assistant/warm HTTP/1.1");
  EXPECT_THAT(seen.headers, HasSubstr("Accept: application/x-ndjson\r\n"));
  EXPECT_EQ(seen.body, R"({"wait":true})");
}

TEST(Warm, JsonPassesLinesUnchanged) {
  const std::string lines = running(0) + running(5) + done();
  FakeAgent agent([&](const SeenRequest&, Peer& peer) {
    peer.begin_chunked();
    for (std::size_t at = 0; at < lines.size(); at += 7)  // chunks know nothing of lines
      peer.send_chunk(std::string_view(lines).substr(at, 7));
    peer.end_chunks();
  });
  const Ended ended = run(agent, {"warm", "assistant", "--json"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, lines);
  EXPECT_EQ(ended.err, "");
}

TEST(Warm, AHoldThatWasNotReachedIsAWarning) {
  FakeAgent agent(warms(
      {running(0), done(R"(,"warning":{"code":"lock_limit","message":"8 MiB may be locked"})")}));
  const Ended warned = run(agent, {"warm", "assistant", "--hold", "locked"});
  EXPECT_EQ(warned.status, 0);
  EXPECT_EQ(warned.err, "warning: 8 MiB may be locked (lock_limit)\n");
  EXPECT_THAT(warned.out, StartsWith("assistant: warm"));
  EXPECT_EQ(agent.seen(1).at(0).body, R"({"hold":"locked","wait":true})");
  EXPECT_EQ(run(agent, {"warm", "assistant", "--strict"}).status, 1);
  EXPECT_EQ(run(agent, {"warm", "assistant", "--strict", "--json"}).status, 1);
  EXPECT_EQ(run(agent, {"warm", "assistant", "--json"}).status, 0);
}

TEST(Warm, AFailedJobIsAFailure) {
  FakeAgent agent(warms({running(0), R"({"job":7,"state":"failed","error":{"code":"io_error",)"
                                     R"("message":"read /m/a: Input/output error"}})"
                                     "\n"}));
  const Ended ended = run(agent, {"warm", "assistant"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "andironctl: assistant: read /m/a: Input/output error (io_error)\n");
}

TEST(Warm, AJobThatSomebodyCancelledIsAFailure) {
  FakeAgent agent(warms({running(0), "{\"job\":7,\"state\":\"cancelled\"}\n"}));
  const Ended ended = run(agent, {"warm", "assistant"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "andironctl: assistant: cancelled (cancelled)\n");
}

TEST(Warm, AnAnswerWithoutAnEndIsAFailure) {
  FakeAgent agent(warms({running(0)}));
  const Ended ended = run(agent, {"warm", "assistant"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "andironctl: the agent ended its answer too early (unavailable)\n");
}

TEST(Warm, ANameThatNobodyKnowsIsNoSource) {
  FakeAgent agent(answers(404, kNoModel));
  const Ended ended = run(agent, {"warm", "assistent"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "andironctl: no such model (model_not_found)\n");
  EXPECT_EQ(agent.seen(1).size(), 1U);
}

TEST(Warm, ASourceIsTriedAsANameFirst) {
  FakeAgent agent([](const SeenRequest& request, Peer& peer) {
    if (request.line.find("/v1/models/") != std::string::npos) return peer.respond(404, kNoModel);
    peer.begin_chunked();
    peer.send_chunk(done());
    peer.end_chunks();
  });
  const TempDir folder;
  folder.write("sub/x.gguf", "x");
  const Ended ended = Process({"--socket", agent.socket(), "warm", "x.gguf"},
                              Process::Output::pipes, {}, (folder / "sub").string())
                          .wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  const std::vector<SeenRequest> seen = agent.seen(2);
  EXPECT_EQ(seen.at(0).line, "POST /v1/models/x.gguf/warm HTTP/1.1");
  EXPECT_EQ(seen.at(1).line, "POST /v1/warm HTTP/1.1");
  EXPECT_EQ(seen.at(1).body,
            "{\"source\":\"" + (folder / "sub").string() + "/x.gguf\",\"wait\":true}");
}

TEST(Warm, WithoutWaitingSaysWhichJob) {
  FakeAgent agent(answers(202, R"({"job":7,"state":"running"})"));
  const Ended ended = run(agent, {"warm", "assistant", "--no-wait"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.out, HasSubstr("job 7"));
  EXPECT_EQ(agent.seen(1).at(0).body, R"({"wait":false})");
  EXPECT_THAT(agent.seen(1).at(0).headers, HasSubstr("Accept: application/json\r\n"));
}

/// A job that goes on until its client hangs up; deletes are answered.
FakeAgent::Script endless(std::string first) {
  return [first = std::move(first)](const SeenRequest& request, Peer& peer) {
    if (request.line.starts_with("DELETE")) return peer.respond(200, "{}");
    peer.begin_chunked();
    peer.send_chunk(first);
    peer.wait_for_hang_up();
  };
}

TEST(Interrupt, TakesItsOwnJobAlong) {
  for (const int signal : {SIGINT, SIGTERM}) {
    FakeAgent agent(endless(running(0)));
    Process process({"--socket", agent.socket(), "--json", "warm", "assistant"});
    ASSERT_TRUE(process.wait_for("\"running\""));
    process.signal(signal);
    const Ended ended = process.wait();
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.out, HasSubstr("\"cancelled\""));
    ASSERT_EQ(agent.seen(2).size(), 2U);
    EXPECT_EQ(agent.seen(2).at(1).line, "DELETE /v1/jobs/7 HTTP/1.1");
  }
}

TEST(Interrupt, LeavesTheJobOfSomebodyElse) {
  FakeAgent agent(endless(running(0, true)));
  Process process({"--socket", agent.socket(), "warm", "assistant"}, Process::Output::terminal_err,
                  {"TERM=xterm"});
  ASSERT_TRUE(process.wait_for("assistant"));
  process.signal(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("andironctl: assistant: cancelled (cancelled)"));
  EXPECT_THAT(ended.err, HasSubstr("job 7 goes on"));
  EXPECT_EQ(agent.seen(1).size(), 1U);
}

TEST(Timeout, LetsTheJobGoOn) {
  FakeAgent agent(endless(running(0)));
  const Ended ended = run(agent, {"warm", "assistant", "--timeout", "200ms"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("not warm after 200 ms"));
  EXPECT_THAT(ended.err, HasSubstr("(timeout)"));
  EXPECT_THAT(ended.err, EndsWith("job 7 goes on\n"));
  const Ended json = run(agent, {"warm", "assistant", "--timeout", "200ms", "--json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_THAT(json.out, HasSubstr(R"({"error":{"code":"timeout",)"));
  for (const SeenRequest& request : agent.seen(2))
    EXPECT_EQ(request.line, "POST /v1/models/assistant/warm HTTP/1.1");
}

TEST(Timeout, IsForAnAgentThatDoesNotComeToo) {
  const TempDir folder;
  const std::string socket = (folder / "none").string();
  for (const std::vector<std::string>& what :
       std::vector<std::vector<std::string>>{{"assistant"}, {"--boot"}}) {
    std::vector<std::string> line{"--socket", socket, "warm", "--timeout", "300ms"};
    line.insert(line.end(), what.begin(), what.end());
    const Ended ended = Process(line).wait();
    EXPECT_EQ(ended.status, 3);
    EXPECT_THAT(ended.err, HasSubstr("there is no such socket"));
  }
}

/// Models as GET /v1/models lists them; warms of theirs get `lines`, or 404 for "lost".
FakeAgent::Script boots(std::string models, std::string line) {
  return
      [models = std::move(models), line = std::move(line)](const SeenRequest& request, Peer& peer) {
        if (request.line.starts_with("GET")) return peer.respond(200, models);
        if (request.line.find("/lost/") != std::string::npos) return peer.respond(404, kNoModel);
        peer.begin_chunked();
        peer.send_chunk(line);
        peer.end_chunks();
      };
}

TEST(WarmBoot, WaitsForAllOfThemTheMostImportantFirst) {
  FakeAgent agent(boots(R"({"models":[{"name":"late","preload":["boot"],"priority":"batch"},)"
                        R"({"name":"asked","preload":[],"priority":"critical"},)"
                        R"({"name":"never","preload":["never"]},)"
                        R"({"name":"lost","preload":["container:x","boot"],"priority":"normal"},)"
                        R"({"name":"first","preload":["boot"],"priority":"interactive"}]})",
                        done()));
  const Ended ended = run(agent, {"warm", "--boot", "--timeout", "1m"});
  EXPECT_EQ(ended.status, 1);  // of "lost"
  EXPECT_EQ(ended.err, "andironctl: no such model (model_not_found)\n");
  const std::vector<SeenRequest> seen = agent.seen(4);
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen.at(0).line, "GET /v1/models HTTP/1.1");
  EXPECT_EQ(seen.at(1).line, "POST /v1/models/first/warm HTTP/1.1");
  EXPECT_EQ(seen.at(1).body, R"({"wait":true})");
  EXPECT_EQ(seen.at(2).line, "POST /v1/models/lost/warm HTTP/1.1");
  EXPECT_EQ(seen.at(3).line, "POST /v1/models/late/warm HTTP/1.1");
}

TEST(WarmBoot, HasNothingToDoWithoutSuchModels) {
  FakeAgent agent(boots(R"({"models":[{"name":"asked","preload":[]}]})", done()));
  const Ended ended = run(agent, {"warm", "--boot"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, "no model has preload = \"boot\"\n");
}

TEST(WarmBoot, LeavesTheAgentsJobsAlone) {
  FakeAgent agent([](const SeenRequest& request, Peer& peer) {
    if (request.line.starts_with("GET")) {
      return peer.respond(200, R"({"models":[{"name":"a","preload":["boot"]},)"
                               R"({"name":"b","preload":["boot"]}]})");
    }
    peer.begin_chunked();
    peer.send_chunk(running(0));
    peer.wait_for_hang_up();
  });
  const Ended late = run(agent, {"warm", "--boot", "--timeout", "200ms"});
  EXPECT_EQ(late.status, 1);
  EXPECT_THAT(late.err, HasSubstr("a: not warm after 200 ms"));
  Process process({"--socket", agent.socket(), "--json", "warm", "--boot"});
  ASSERT_TRUE(process.wait_for("\"running\""));
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().status, 1);
  // The list and one model each time: nothing after a deadline or a signal, and no DELETE.
  EXPECT_EQ(agent.seen(4).size(), 4U);
}

TEST(Terminal, ShowsABarAndLeavesACleanLine) {
  FakeAgent agent(warms({running(1009688688), done()}));
  const Ended ended = Process({"--socket", agent.socket(), "warm", "assistant"},
                              Process::Output::terminal_err, {"TERM=xterm"})
                          .wait();
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, StartsWith("\rassistant  [##"));
  EXPECT_THAT(ended.err, HasSubstr(" 50 %  963 MiB of 1.9 GiB\x1b[K"));
  EXPECT_THAT(ended.err, EndsWith("\r\x1b[K"));
  EXPECT_THAT(ended.err, Not(HasSubstr("\n")));
  EXPECT_THAT(ended.out, StartsWith("assistant: warm"));
}

TEST(Terminal, ThatIsDumbShowsNone) {
  for (const char* term : {"TERM=dumb", "TERM="}) {
    FakeAgent agent(warms({running(5), done()}));
    const Ended ended = Process({"--socket", agent.socket(), "warm", "assistant"},
                                Process::Output::terminal_err, {term})
                            .wait();
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
  }
}

TEST(Terminal, HasColoursUnlessSomebodySaysNo) {
  FakeAgent agent(answers(200, R"({"models":[)" + std::string(kModel) + "]}"));
  const auto models = [&](std::vector<std::string> environment) {
    return Process({"--socket", agent.socket(), "models"}, Process::Output::terminal, environment)
        .wait()
        .out;
  };
  EXPECT_THAT(models({"TERM=xterm"}), HasSubstr("\x1b[32mwarm\x1b[0m"));
  EXPECT_THAT(models({"TERM=xterm", "NO_COLOR=1"}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(models({"TERM=dumb"}), Not(HasSubstr("\x1b")));
}

constexpr const char* kEvent =
    R"({"seq":12,"time":"2020-11-29T10:00:03Z","type":"model.evicted","model":"assistant",)"
    R"("file":"/m/a","bytes":1048576,"cause":"direct-reclaim","by":{"pid":412,"comm":"ffmpeg",)"
    R"("cgroup":"/docker/ab12","container":"jellyfin"}})"
    "\n";

TEST(Events, AreALineEach) {
  FakeAgent agent(warms({kEvent, kEvent}));
  const Ended ended = run(agent, {"events", "--since", "1 h"});
  EXPECT_EQ(ended.status, 0);
  const std::string line =
      "2020-11-29 10:00:03 model.evicted assistant: 1.0 MiB by ffmpeg (jellyfin), direct-reclaim\n";
  EXPECT_EQ(ended.out, line + line);
  EXPECT_EQ(agent.seen(1).at(0).line, "GET /v1/events?since=1%20h HTTP/1.1");
  EXPECT_EQ(run(agent, {"events", "--json"}).out, std::string(kEvent) + kEvent);
}

TEST(Events, FollowUntilTheUserHasEnough) {
  FakeAgent agent(endless(kEvent));
  Process process({"--socket", agent.socket(), "events", "--follow"});
  ASSERT_TRUE(process.wait_for("model.evicted"));
  process.signal(SIGINT);
  const Ended ended = process.wait();
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(agent.seen(1).at(0).line, "GET /v1/events?follow=1 HTTP/1.1");
}

TEST(Events, EndQuietlyWithTheirReader) {
  FakeAgent agent(endless(kEvent));
  Process process({"--socket", agent.socket(), "events", "--follow"});
  ASSERT_TRUE(process.wait_for("model.evicted"));
  process.close_out();  // no further event comes: it has to notice by itself
  const Ended ended = process.wait();
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(Events, ThatEndWhileFollowedAreAFailure) {
  FakeAgent agent(warms({kEvent}));
  const Ended ended = run(agent, {"events", "--follow"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("model.evicted"));
  EXPECT_THAT(ended.err, HasSubstr("(unavailable)"));
}

TEST(Events, OfEndlessLinesAreRefused) {
  FakeAgent agent([](const SeenRequest&, Peer& peer) {
    peer.begin_chunked();
    for (int i = 0; i < 40; ++i)
      peer.send_chunk(std::string(32768, 'x'));
    peer.wait_for_hang_up();
  });
  const Ended ended = run(agent, {"events", "--follow"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("(too_large)"));
}

TEST(Events, ThatAreRefusedSayWhy) {
  FakeAgent agent(answers(400, R"({"error":{"code":"bad_request","message":"since"}})"));
  const Ended ended = run(agent, {"events", "--since", "x"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.err, "andironctl: since (bad_request)\n");
}

}  // namespace
}  // namespace andiron::testing
