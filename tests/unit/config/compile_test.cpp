// SPDX-License-Identifier: MIT
#include "agent/config/compile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/support/temp_dir.hpp"

namespace andiron::config {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> errors_of(std::string_view text) {
  std::vector<std::string> result;
  for (const Diagnostic& error : compile(text, "f").errors)
    result.push_back(error.to_string());
  return result;
}

Settings settings_of(std::string_view text) {
  const Compiled compiled = compile(text, "f");
  for (const Diagnostic& error : compiled.errors)
    ADD_FAILURE() << error.to_string();
  return compiled.settings;
}

TEST(Compile, AnEmptyTextIsTheDefaults) {
  const Settings settings = settings_of("");
  EXPECT_THAT(settings.agent.allow_roots,
              ElementsAre("/srv/models", "/usr/share/ollama/.ollama/models"));
  EXPECT_THAT(settings_of("[agent]\nallow_roots = []").agent.allow_roots, IsEmpty());
  EXPECT_EQ(settings.agent.lease_access, LeaseAccess::group);
  EXPECT_FALSE(settings.agent.dry_run);
  EXPECT_EQ(settings.budget.ram.of(100), 50u);
  EXPECT_FALSE(settings.budget.ram_headroom.has_value());
  EXPECT_EQ(settings.stream.staging.count, 256 * kMiB);
  EXPECT_EQ(settings.stream.max_bandwidth.count, 0u);
  EXPECT_EQ(settings.budget.protection, Protection::low);
  EXPECT_EQ(settings.stream.io_class, IoClass::best_effort);
  EXPECT_EQ(settings.watch.ebpf, Switch::automatic);
  EXPECT_TRUE(settings.watch.prefetch_on_open);
  EXPECT_EQ(settings.watch.docker, "/var/run/docker.sock");
  EXPECT_THAT(settings.models, IsEmpty());
  EXPECT_FALSE(settings.http.listen);
}

TEST(Compile, ReadsTheTables) {
  const Settings settings = settings_of(R"(
[agent]
allow_roots = ["/srv//models/", "/", "/a/./b"]
lease_access = "readers"
dry_run = true
[budget]
ram = "24GiB"
ram_headroom = " 12.5 % "
protection = "min"
[stream]
staging = 1048576
max_bandwidth = "200MB/s"
io_class = "idle"
[watch]
ebpf = "off"
prefetch_on_open = false
docker = "/run/user/1000/docker.sock"
[http]
listen = "0.0.0.0:9479"
token_file = "/etc/token"
)");
  EXPECT_THAT(settings.agent.allow_roots, ElementsAre("/srv/models", "/", "/a/b"));
  EXPECT_EQ(settings.agent.lease_access, LeaseAccess::readers);
  EXPECT_TRUE(settings.agent.dry_run);
  EXPECT_EQ(settings.budget.ram.of(7), 24 * kGiB);
  EXPECT_EQ(settings.budget.ram_headroom->of(80), 10u);
  EXPECT_EQ(settings.stream.staging.count, kMiB);
  EXPECT_EQ(settings.stream.max_bandwidth.count, 200'000'000u);
  EXPECT_EQ(settings.budget.protection, Protection::min);
  EXPECT_EQ(settings.stream.io_class, IoClass::idle);
  EXPECT_EQ(settings.watch.ebpf, Switch::off);
  EXPECT_FALSE(settings.watch.prefetch_on_open);
  EXPECT_EQ(settings.watch.docker, "/run/user/1000/docker.sock");
  ASSERT_TRUE(settings.http.listen);
  EXPECT_EQ(settings.http.listen->to_string(), "0.0.0.0:9479");
  EXPECT_EQ(settings.http.token_file, "/etc/token");
}

TEST(Compile, ReadsTheLists) {
  const Settings settings = settings_of(R"(
[[gpu]]
uuid = "GPU-12ab"
budget = "50%"
[[gpu]]
index = 1
headroom = "2GiB"
budget = "auto"
[[model]]
name = "a:1"
source = "ollama:llama3.2:3b"
tier = "page-cache"
hold = "locked"
also = ["/x/*.so", "hf:o/n"]
priority = "critical"
keep_alive = "1h30m"
preload = ["boot", "container:c.1", "container:c.1"]
bytes = "2GiB"
load_s = 3
[[model]]
name = "b"
source = "/b"
tier = "vram"
hold = "auto"
keep_alive = "forever"
preload = "never"
[[tenant]]
name = "jellyfin"
match = { exe = "*/ffmpeg" }
vram = "1500MiB"
ram = "auto"
)");
  ASSERT_EQ(settings.gpus.size(), 2u);
  EXPECT_EQ(settings.gpus[0].uuid, "GPU-12ab");
  EXPECT_EQ(settings.gpus[0].budget->of(10), 5u);
  EXPECT_EQ(settings.gpus[1].index, 1u);
  EXPECT_FALSE(settings.gpus[1].budget.has_value());
  EXPECT_EQ(settings.gpus[1].headroom->of(1), 2 * kGiB);
  ASSERT_EQ(settings.models.size(), 2u);
  const ModelSettings& a = settings.models[0];
  EXPECT_EQ(a.name, "a:1");
  EXPECT_EQ(a.source, "ollama:llama3.2:3b");
  EXPECT_EQ(a.hold, Hold::locked);
  EXPECT_THAT(a.also, ElementsAre("/x/*.so", "hf:o/n"));
  EXPECT_EQ(a.priority, Priority::critical);
  EXPECT_EQ(a.keep_alive.kind, KeepAlive::Kind::fixed);
  EXPECT_EQ(a.keep_alive.duration, milliseconds(5'400'000));
  EXPECT_TRUE(a.preload.boot);
  EXPECT_FALSE(a.preload.never);
  EXPECT_THAT(a.preload.containers, ElementsAre("c.1"));
  EXPECT_EQ(a.bytes->count, 2 * kGiB);
  EXPECT_EQ(a.load_s, 3.0);
  const ModelSettings& b = settings.models[1];
  EXPECT_EQ(b.tier, Tier::vram);
  EXPECT_FALSE(b.hold.has_value());
  EXPECT_EQ(b.priority, Priority::normal);
  EXPECT_EQ(b.keep_alive.kind, KeepAlive::Kind::forever);
  EXPECT_TRUE(b.preload.never);
  ASSERT_EQ(settings.tenants.size(), 1u);
  EXPECT_EQ(settings.tenants[0].match_exe, "*/ffmpeg");
  EXPECT_EQ(settings.tenants[0].vram->count, 1500 * kMiB);
  EXPECT_FALSE(settings.tenants[0].ram.has_value());
}

struct BadCase {
  const char* text;
  std::vector<std::string> errors;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.text; }

class Bad : public ::testing::TestWithParam<BadCase> {};

TEST_P(Bad, IsSaidWithItsPlace) {
  EXPECT_EQ(errors_of(GetParam().text), GetParam().errors);
  // "Either the settings, or what is wrong".
  EXPECT_TRUE(compile(GetParam().text, "f").settings.models.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Names, Bad,
    ::testing::Values(
        BadCase{"[agnet]\n", {R"(f:1:2: unknown table "agnet"; did you mean [agent]?)"}},
        BadCase{"[[modle]]\n", {R"(f:1:3: unknown key "modle"; did you mean [[model]]?)"}},
        BadCase{"zebra = 1\n", {R"(f:1:1: unknown key "zebra" outside of any table)"}},
        BadCase{"dry_run = true\n", {R"(f:1:1: unknown key "dry_run"; it belongs in [agent])"}},
        BadCase{"[agent]\n  dryrun = true\n",
                {R"(f:2:3: unknown key "dryrun" in [agent]; did you mean "dry_run"?)"}},
        BadCase{"[agent]\ntier = 1\n",
                {R"(f:2:1: unknown key "tier" in [agent]; it belongs in [[model]])"}},
        BadCase{"[agent]\nxyzzy = 1\n", {R"(f:2:1: unknown key "xyzzy" in [agent])"}},
        BadCase{"[agent]\n\"a\\u001bb\" = 1\n", {R"(f:2:1: unknown key "a\u001Bb" in [agent])"}},
        BadCase{"[[model]]\nname = \"a\"\nsource = \"/a\"\nkeep-alive = \"1m\"\n",
                {R"(f:4:1: unknown key "keep-alive" in [[model]]; did you mean "keep_alive"?)"}},
        BadCase{
            "[[tenant]]\nname = \"a\"\nexe = \"x\"\nmatch = { cgroups = \"y\" }\n",
            {R"(f:3:1: unknown key "exe" in [[tenant]]; it belongs in "match" of [[tenant]])",
             R"(f:4:9: "match" needs "exe" or "cgroup")",
             R"(f:4:11: unknown key "cgroups" in "match" of [[tenant]]; did you mean "cgroup"?)"}}));

INSTANTIATE_TEST_SUITE_P(
    Types, Bad,
    ::testing::Values(
        BadCase{"agent = 1\n", {R"(f:1:1: "agent" must be a table, [agent], not a whole number)"}},
        BadCase{"[[agent]]\n", {R"(f:1:3: "agent" must be a table, [agent], not an array)"}},
        BadCase{"[model]\n",
                {R"(f:1:2: "model" must be a list of tables, [[model]], not a table)"}},
        BadCase{"model = [1]\n", {"f:1:10: [[model]] must be a table, not a whole number"}},
        BadCase{"[agent]\ndry_run = \"true\"\n",
                {R"(f:2:11: "dry_run" must be true or false, not a string)"}},
        BadCase{"[agent]\nlease_access = 1\n",
                {R"(f:2:16: "lease_access" must be a string, not a whole number)"}},
        BadCase{"[agent]\nallow_roots = \"/a\"\n",
                {R"(f:2:15: "allow_roots" must be an array of strings, not a string)"}},
        BadCase{"[agent]\nallow_roots = [\n\"/a\",\n2.5]\n",
                {R"(f:4:1: "allow_roots" must be a string, not a decimal number)"}},
        BadCase{"[stream]\nstaging = true\n",
                {R"(f:2:11: "staging" must be a size such as "24GiB", not true or false)"}},
        BadCase{"[http]\nlisten = 1979-05-27\n",
                {R"(f:2:10: "listen" must be a string, not a date or time)"}},
        BadCase{"[http]\ntoken_file = \"a\\nb\"\n",
                {R"(f:2:14: "token_file" must not contain control characters)"}},
        BadCase{"[[gpu]]\nindex = \"0\"\n",
                {R"(f:2:9: "index" must be a whole number, not a string)"}},
        BadCase{"[[tenant]]\nname = \"a\"\nmatch = \"*/x\"\n",
                {R"(f:3:9: "match" must be a table such as { exe = "*/ffmpeg" }, not a string)"}}));

INSTANTIATE_TEST_SUITE_P(
    Values, Bad,
    ::testing::Values(
        BadCase{
            "[agent]\nlease_access = \"reader\"\n",
            {R"(f:2:16: "lease_access" must be "group" or "readers", not "reader"; did you mean "readers"?)"}},
        BadCase{
            "[watch]\ndocker = \"of\"\n",
            {R"(f:2:10: "docker" must be "auto", "off" or the absolute path of a socket, of at most 107 bytes, not "of"; did you mean "off"?)"}},
        BadCase{"[agent]\nallow_roots = [\"models\", \"/a/../b\"]\n",
                {R"(f:2:16: "allow_roots" must have absolute paths without "..", not "models")",
                 R"(f:2:26: "allow_roots" must have absolute paths without "..", not "/a/../b")"}},
        BadCase{
            "[budget]\nram = \"24 lightyears\"\nram_headroom = \"-1GiB\"\n",
            {R"(f:2:7: "ram" is no size "24 lightyears": unknown unit; use B, KiB, MiB, GiB or TiB)",
             R"(f:3:16: "ram_headroom" is no size "-1GiB": not a number with a unit such as "24GiB")"}},
        BadCase{"[budget]\nram = \"0%\"\nram_headroom = \"100.1%\"\n",
                {R"(f:2:7: "ram" must be more than 0% and at most 100%, not "0%")",
                 R"(f:3:16: "ram_headroom" must be more than 0% and at most 100%, not "100.1%")"}},
        BadCase{"[budget]\nram = \"nan%\"\nram_headroom = \"%\"\n",
                {R"(f:2:7: "ram" must be more than 0% and at most 100%, not "nan%")",
                 R"(f:3:16: "ram_headroom" must be more than 0% and at most 100%, not "%")"}},
        BadCase{"[budget]\nram = -1\n", {R"(f:2:7: "ram" must not be negative)"}},
        BadCase{
            "[stream]\nstaging = \"1KiB\"\nmax_bandwidth = \"200\"\nio_class = \"best_effort\"\n",
            {R"(f:2:11: "staging" must be from 1MiB to 64GiB)",
             R"(f:3:17: "max_bandwidth" must be 0 (no limit), or at least 64KiB a second; is a unit missing, as in "200MB"?)",
             R"(f:4:12: "io_class" must be "idle" or "best-effort", not "best_effort"; did you mean "best-effort"?)"}},
        BadCase{"[[gpu]]\n[[gpu]]\nuuid = \"GPU-1\"\nindex = 64\n",
                {R"(f:1:1: [[gpu]] needs "uuid" or "index")",
                 R"(f:4:1: [[gpu]] takes "uuid" or "index", not both)",
                 R"(f:4:9: "index" must be from 0 to 63)"}},
        BadCase{"[[gpu]]\nuuid = \"1234\"\n[[gpu]]\nindex = 0\n[[gpu]]\nindex = 0\n",
                {R"(f:2:8: "uuid" must be "GPU-..." as nvidia-smi -L prints it, not "1234")",
                 R"(f:6:9: "index" 0 is already used on line 4)"}},
        BadCase{
            "[[tenant]]\n[[tenant]]\nname = \"a\"\nmatch = {}\n[[tenant]]\nname = \"a\"\nmatch = { "
            "exe = \"x\" }\nram = \"50%\"\n",
            {R"(f:1:1: [[tenant]] has no "name")", R"(f:1:1: [[tenant]] has no "match")",
             R"(f:4:9: "match" needs "exe" or "cgroup")",
             R"(f:6:8: "name" a is already used on line 3)",
             R"(f:8:7: "ram" is no size "50%": unknown unit; use B, KiB, MiB, GiB or TiB)"}}));

INSTANTIATE_TEST_SUITE_P(
    Models, Bad,
    ::testing::Values(
        BadCase{"\n[[model]]\n",
                {R"(f:2:1: [[model]] has no "name")", R"(f:2:1: [[model]] has no "source")"}},
        BadCase{
            "[[model]]\nname = \"a b\"\nsource = \"\"\n",
            {R"(f:2:8: "name" must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -, not "a b")",
             R"(f:3:10: "source" must be an absolute path, "ollama:NAME", "hf:ORG/NAME" or "guest:NAME:SOURCE", not "")"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"olama:x\"\n[[model]]\nname = \"a\"\nsource = "
            "\"models/x\"\n",
            {R"(f:3:10: "source" must be an absolute path, "ollama:NAME", "hf:ORG/NAME" or "guest:NAME:SOURCE", not "olama:x"; did you mean "ollama"?)",
             R"(f:5:8: "name" a is already used on line 2)",
             R"(f:6:10: "source" must be an absolute path, "ollama:NAME", "hf:ORG/NAME" or "guest:NAME:SOURCE", not "models/x")"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"guest:b\"\n[[model]]\nname = \"c\"\nsource = "
            "\"guest:101:models/x\"\nalso = [\"guest:101:olama:x\", \"guest:-:/x\", "
            "\"gest:a:/x\"]\n",
            {R"(f:3:10: "source" must be "guest:NAME:SOURCE", not "guest:b")",
             R"(f:6:10: "source" must have an absolute path, "ollama:NAME" or "hf:ORG/NAME" after "guest:101:", not "models/x")",
             R"(f:7:9: "also" must have an absolute path, "ollama:NAME" or "hf:ORG/NAME" after "guest:101:", not "olama:x"; did you mean "ollama"?)",
             R"(f:7:30: "also" must be "guest:NAME:SOURCE", not "guest:-:/x")",
             R"(f:7:44: "also" must be an absolute path, "ollama:NAME", "hf:ORG/NAME" or "guest:NAME:SOURCE", not "gest:a:/x"; did you mean "guest"?)"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"/a\"\ntier = \"ram\"\nhold = \"lock\"\npriority = "
            "\"hi\"\n",
            {R"(f:4:8: "tier" must be "page-cache", "pinned-ram" or "vram", not "ram"; did you mean "vram"?)",
             R"(f:5:8: "hold" must be "auto", "cached", "mapped", "protected" or "locked", not "lock")",
             R"(f:6:12: "priority" must be "background", "batch", "normal", "interactive" or "critical", not "hi")"}},
        BadCase{"[[model]]\nname = \"a\"\nsource = \"/a\"\nhold = \"mapped\"\ntier = \"vram\"\n",
                {R"(f:4:8: "hold" is for tier "page-cache"; leave it out where "tier" is "vram")"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"/a\"\nkeep_alive = 300\nalso = [\"x\"]\n",
            {R"(f:4:14: "keep_alive" must be "auto", "forever" or a time such as "30m", not a whole number)",
             R"(f:5:9: "also" must be an absolute path, "ollama:NAME", "hf:ORG/NAME" or "guest:NAME:SOURCE", not "x")"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"/a\"\nkeep_alive = \"30\"\nload_s = nan\nbytes = "
            "1.5\n",
            {R"(f:4:14: "keep_alive" must be "auto", "forever" or a time such as "30m", not "30")",
             R"(f:5:10: "load_s" must be from 0 to 86400 seconds)",
             R"(f:6:9: "bytes" must be a size such as "24GiB", not a decimal number)"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"/a\"\nkeep_alive = \"0s\"\npreload = [\"never\", "
            "\"boot\"]\n",
            {R"(f:4:14: "keep_alive" must be longer than 0)",
             R"(f:5:11: "preload" cannot have "never" beside others)"}},
        BadCase{
            "[[model]]\nname = \"a\"\nsource = \"/a\"\nkeep_alive = \"for ever\"\npreload = "
            "[\"container:\", \"bot\", 3]\n",
            {R"(f:4:14: "keep_alive" must be "auto", "forever" or a time such as "30m", not "for ever"; did you mean "forever"?)",
             R"(f:5:12: "preload" has no container name in "container:")",
             R"(f:5:26: "preload" must be "boot", "container:NAME" or "never", not "bot"; did you mean "boot"?)",
             R"(f:5:33: "preload" must be a string, not a whole number)"}}));

INSTANTIATE_TEST_SUITE_P(
    Http, Bad,
    ::testing::Values(
        BadCase{"[http]\nlisten = \"9479\"\n",
                {R"(f:2:10: "listen" must be ADDRESS:PORT, as in "127.0.0.1:9479", not "9479")"}},
        BadCase{"[http]\nlisten = \"127.0.0.1:0\"\n",
                {R"(f:2:10: "listen" must end in a port from 1 to 65535, not "127.0.0.1:0")"}},
        BadCase{
            "[http]\nlisten = \"::1:80\"\n",
            {R"(f:2:10: "listen" needs brackets around an IPv6 address, as in "[::1]:9479", not "::1:80")"}},
        BadCase{
            "[http]\nlisten = \"[127.0.0.1]:80\"\n",
            {R"(f:2:10: "listen" must be a numeric address and a port, as in "127.0.0.1:9479", not "[127.0.0.1]:80")"}},
        BadCase{
            "[http]\nlisten = \"localhost:80\"\ntoken_file = \"t\"\n",
            {R"(f:2:10: "listen" must be a numeric address and a port, as in "127.0.0.1:9479", not "localhost:80")",
             R"(f:3:14: "token_file" must be an absolute path, not "t")"}},
        BadCase{
            "[http]\nlisten = \"[::]:80\"\ntoken_file = \"\"\n",
            {R"(f:2:10: "listen" beyond loopback needs a "token_file", or everybody there could read all of it)"}}));

TEST(Compile, LoopbackNeedsNoToken) {
  for (const char* address :
       {"127.0.0.1:1", "127.9.9.9:65535", "[::1]:80", "[::ffff:127.0.0.1]:80"}) {
    EXPECT_THAT(errors_of("[http]\nlisten = \"" + std::string(address) + "\"\n"), IsEmpty());
  }
  for (const char* address : {"10.0.0.1:1", "[fe80::1]:80", "[::ffff:10.0.0.1]:80", "[::2]:80"}) {
    EXPECT_EQ(errors_of("[http]\nlisten = \"" + std::string(address) + "\"\n").size(), 1u)
        << address;
  }
}

TEST(Compile, SaysEverythingInOrderOfPosition) {
  EXPECT_THAT(
      errors_of("[watch]\nebpf = 1\n[[model]]\n[agent]\ndry_run = 1\nb = 1\na = 1\n"),
      ElementsAre(R"(f:2:8: "ebpf" must be a string, not a whole number)",
                  R"(f:3:1: [[model]] has no "name")", R"(f:3:1: [[model]] has no "source")",
                  R"(f:5:11: "dry_run" must be true or false, not a whole number)",
                  R"(f:6:1: unknown key "b" in [agent])", R"(f:7:1: unknown key "a" in [agent])"));
}

TEST(Compile, ModelsAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += "[[model]]\nname='m" + std::to_string(i) + "'\nsource='/m'\n";
  EXPECT_EQ(settings_of(text).models.size(), 1000u);
  text += "[[model]]\n[[model]]\n";
  EXPECT_THAT(errors_of(text), ElementsAre("f:3001:1: more than 1000 [[model]]"));
}

TEST(Compile, ErrorsAreBounded) {
  std::string text = "[agent]\n";
  for (int i = 0; i < 50'000; ++i)
    text += "k" + std::to_string(i) + "=1\n";
  const std::vector<std::string> errors = errors_of(text);
  ASSERT_EQ(errors.size(), 101u);
  EXPECT_EQ(errors[0], R"(f:2:1: unknown key "k0" in [agent])");
  EXPECT_EQ(errors[99], R"(f:101:1: unknown key "k99" in [agent])");
  EXPECT_EQ(errors[100], "f:102:1: ... and 49900 more");
}

TEST(Compile, TextIsBounded) {
  const std::string most(kMiB, '\n');
  EXPECT_THAT(errors_of(most), IsEmpty());
  EXPECT_THAT(errors_of(most + "\n"), ElementsAre("f: is larger than 1 MiB"));
}

TEST(CompileFile, ReadsAFile) {
  const andiron::testing::TempDir dir;
  const std::string good = dir.write("good.toml", "[agent]\ndry_run = true\n").string();
  EXPECT_TRUE(compile_file(good).settings.agent.dry_run);
  const std::string bad = dir.write("bad.toml", "x = 1\n").string();
  ASSERT_EQ(compile_file(bad).errors.size(), 1u);
  EXPECT_EQ(compile_file(bad).errors[0].to_string(),
            bad + R"(:1:1: unknown key "x" outside of any table)");
}

TEST(CompileFile, RefusesWhatIsNoFile) {
  const andiron::testing::TempDir dir;
  const auto error_of = [](const std::string& path) {
    const Compiled compiled = compile_file(path);
    return compiled.errors.size() == 1 ? compiled.errors[0].to_string() : "not one error";
  };
  const std::string fifo = (dir / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(error_of(fifo), fifo + ": cannot be read: not a regular file");
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: cannot be read: not a regular file");
  EXPECT_EQ(error_of(dir.path().string()),
            dir.path().string() + ": cannot be read: not a regular file");
  const std::string none = (dir / "none").string();
  EXPECT_EQ(error_of(none), none + ": cannot be opened: No such file or directory");
  const std::string large = dir.write("large", std::string(kMiB + 1, '\n')).string();
  EXPECT_EQ(error_of(large), large + ": is larger than 1 MiB");
}

TEST(Amount, IsAShareOrBytes) {
  EXPECT_EQ((Amount{50.0, {}}).of(3), 1u);
  EXPECT_EQ((Amount{100.0, {}}).of(UINT64_MAX), UINT64_MAX);
  EXPECT_EQ((Amount{std::nullopt, Bytes{7}}).of(3), 7u);
}

}  // namespace
}  // namespace andiron::config
