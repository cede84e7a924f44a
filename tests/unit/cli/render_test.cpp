// SPDX-License-Identifier: MIT
#include "agent/cli/render.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "agent/base/units.hpp"

namespace andiron::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Render : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC0", 1);
    ::tzset();
  }
  const Style plain_{false, std::chrono::system_clock::from_time_t(1795946400)};
  const Style colour_{true, plain_.now};

  static ModelBody assistant() {
    ModelBody model;
    model.name = "assistant";
    model.state = "warm";
    model.priority = "interactive";
    model.want_tier = "page-cache";
    model.want_hold = "locked";
    model.bytes = 2019377376;
    model.resident_bytes = 2019377376;
    model.locked_bytes = 2019377376;
    model.hold = "locked";
    return model;
  }
  static StatusBody status() {
    StatusBody body;
    body.version = "0.1.0";
    body.pid = 1234;
    body.uptime_s = 12012;
    body.config_path = "/etc/andiron/andiron.toml";
    body.config_loaded = "2026-11-29T09:00:00.000Z";
    body.memory_limit = 32 * kGiB;
    body.memory_available = 12 * kGiB;
    body.memory_limited_by = "machine";
    body.tiers = {{"page-cache", 2019377376, 16 * kGiB, 3 * kGiB}, {"pinned-ram", 0, 0, 0}};
    body.models = {assistant()};
    return body;
  }
};

TEST_F(Render, Status) {
  EXPECT_EQ(render_status(status(), plain_),
            "andirond 0.1.0, up 3h 20m, pid 1234\n"
            "configuration /etc/andiron/andiron.toml, taken 09:00:00\n"
            "memory 12 GiB available of 32 GiB, limited by machine\n"
            "\n"
            "TIER           USED  BUDGET  HEADROOM\n"
            "page-cache  1.9 GiB  16 GiB   3.0 GiB\n"
            "pinned-ram      0 B     0 B       0 B\n"
            "\n"
            "MODEL      STATE            RESIDENT  HOLD    PRIORITY\n"
            "assistant  warm   1.9 GiB of 1.9 GiB  locked  interactive\n");
}

TEST_F(Render, StatusAdvises) {
  StatusBody body = status();
  body.models[0].state = "missing";
  body.models[0].resident_bytes.reset();
  body.models[0].hold.clear();
  body.jobs = 1;
  body.tiers[0].used_bytes = 17 * kGiB;
  body.lanes = {{"0", "/dev/sda", 3, true, 42}, {"1", "/dev/sdb", 0, false, 900}};
  body.capabilities = {{"io_uring", "degraded", "EPERM", "allow it in seccomp"},
                       {"ebpf", "off", "not built", ""}};
  const std::string text = render_status(body, plain_);
  EXPECT_THAT(text, HasSubstr("assistant  missing  unknown of 1.9 GiB  -     interactive\n"));
  EXPECT_THAT(text, HasSubstr("1 job at work: andironctl jobs\n"));
  EXPECT_THAT(text, HasSubstr("assistant is missing: andironctl explain assistant\n"));
  EXPECT_THAT(text, HasSubstr("page-cache is over its budget"));
  EXPECT_THAT(text, HasSubstr("/dev/sda has not answered for 42.0 s"));
  EXPECT_THAT(text, Not(HasSubstr("sdb"))) << "idle is not silent";
  EXPECT_THAT(text, HasSubstr("io_uring is degraded: EPERM; allow it in seccomp\n"));
  EXPECT_THAT(text, Not(HasSubstr("ebpf")));
}

TEST_F(Render, ColourChangesNoColumn) {
  std::string text = render_models({assistant()}, colour_);
  EXPECT_THAT(text, HasSubstr("\x1b[32mwarm\x1b[0m"));
  for (const char* code : {"\x1b[32m", "\x1b[0m"})
    text.erase(text.find(code), std::string(code).size());
  EXPECT_EQ(text, render_models({assistant()}, plain_));
}

TEST_F(Render, ColourFindsTheStateAndNotTheName) {
  ModelBody model = assistant();
  model.name = "warm";
  EXPECT_THAT(render_models({model}, colour_), HasSubstr("warm   \x1b[32mwarm\x1b[0m"));
}

TEST_F(Render, OneModel) {
  ModelBody model = assistant();
  model.source = "ollama:llama3.2:3b";
  model.evictions = 2;
  model.evicted_bytes = 5 * kMiB;
  model.last_load = LoadBody{0.01, 1.2, 0.02, 0.1, 2019377376};
  model.last_error = ErrorBody{"io_error", "read", {}};
  model.files_detail = {{"/m/a.gguf", 2019377376, std::nullopt, 0, false},
                        {"/m/tokenizer.json", 17, 17, 0, true}};
  const std::string text = render_model(model, plain_);
  EXPECT_THAT(text, HasSubstr("page cache  1.9 GiB of 1.9 GiB, 1.9 GiB locked, hold locked\n"));
  EXPECT_THAT(text, HasSubstr("evictions   2, 5.0 MiB\n"));
  EXPECT_THAT(text, HasSubstr("1.9 GiB: locate 10 ms, read 1.2 s, place 20 ms, verify 100 ms\n"));
  EXPECT_THAT(text, HasSubstr("last error  read (io_error)\n"));
  EXPECT_THAT(text, HasSubstr("/m/a.gguf                      1.9 GiB   unknown     0 B\n"));
  EXPECT_THAT(text, HasSubstr("/m/tokenizer.json (companion)     17 B      17 B     0 B\n"));
}

TEST_F(Render, Warmed) {
  using namespace std::chrono_literals;
  EXPECT_EQ(render_warmed(assistant(), 1250ms, 2019377376),
            "assistant: warm, 1.9 GiB of 1.9 GiB resident, locked, in 1.2 s (1.6 GB/s)\n");
  ModelBody model = assistant();
  model.resident_bytes.reset();
  EXPECT_EQ(render_warmed(model, 3ms, 0),
            "assistant: warm, 1.9 GiB, residency unknown, locked, in 3 ms\n");
}

TEST_F(Render, Event) {
  EventBody event;
  event.time = "2026-11-29T10:00:03Z";
  event.type = "model.evicted";
  event.model = "assistant";
  event.file = "/m/a.gguf";
  event.bytes = kMiB;
  event.cause = "direct-reclaim";
  event.by_known = true;
  event.by_pid = 412;
  event.by_comm = "ffmpeg";
  event.by_cgroup = "/docker/ab12";
  event.by_container = "jellyfin";
  EXPECT_EQ(render_event(event, plain_),
            "10:00:03 model.evicted assistant: 1.0 MiB by ffmpeg (jellyfin), direct-reclaim\n");
  event.by_container.clear();
  event.by_comm.clear();
  EXPECT_THAT(render_event(event, plain_), HasSubstr("1.0 MiB by pid 412 (/docker/ab12), "));
  event.by_known = false;
  EXPECT_THAT(render_event(event, plain_), HasSubstr("assistant: 1.0 MiB, direct-reclaim\n"));
  event.bytes = 0;
  event.cause.clear();
  EXPECT_THAT(render_event(event, plain_), HasSubstr("assistant: /m/a.gguf\n"));
}

TEST_F(Render, EventOfNoModel) {
  EventBody event;
  event.time = "2026-11-29T10:00:03Z";
  event.type = "agent.degraded";
  event.detail = "io_uring: EPERM";
  EXPECT_EQ(render_event(event, plain_), "10:00:03 agent.degraded: io_uring: EPERM\n");
}

TEST_F(Render, PlanAndJobs) {
  EXPECT_EQ(render_plan({}), "Nothing to do.\n");
  PlanBody plan{{{"warm", "assistant", "mapped", 2 * kGiB, "wanted at boot"}}, true};
  EXPECT_EQ(render_plan(plan),
            "STEP  MODEL      HOLD      BYTES  WHY\n"
            "warm  assistant  mapped  2.0 GiB  wanted at boot\n"
            "\ndry_run is set: nothing of this is applied.\n");
  EXPECT_EQ(render_jobs({}, plain_), "No jobs.\n");
  EXPECT_EQ(
      render_jobs({{7, "assistant", "running", kGiB, 2 * kGiB, "2026-11-29T10:00:00Z"}}, plain_),
      "JOB  MODEL      STATE                  DONE  STARTED\n"
      "  7  assistant  running  1.0 GiB of 2.0 GiB  10:00:00\n");
}

TEST_F(Render, DoctorListsRemediesOfWhatIsNotOn) {
  const std::string text = render_doctor(
      {{"io_uring", "on", "works", "nothing"}, {"ebpf", "off", "no BTF", "CONFIG_DEBUG_INFO_BTF"}},
      plain_);
  EXPECT_EQ(text,
            "CAPABILITY  STATE  WHY\n"
            "io_uring    on     works\n"
            "ebpf        off    no BTF\n"
            "\nWhat would help:\n"
            "ebpf: CONFIG_DEBUG_INFO_BTF\n");
}

TEST_F(Render, ResolvedWithTensors) {
  ResolvedBody body;
  body.source = "/m/a.gguf";
  body.bytes = 64;
  body.files = {{"/m/a.gguf", 64, {}, 0, false}};
  body.tensors = {{"blk.0", "F16", {4, 2}, "0", 32, 16}};
  EXPECT_EQ(render_resolved(body, true),
            "/m/a.gguf: 64 B in 1 file\n"
            "FILE       SIZE\n"
            "/m/a.gguf  64 B\n"
            "\n"
            "TENSOR  TYPE  SHAPE   FILE  OFFSET  SIZE\n"
            "blk.0   F16   [4, 2]     0      32  16 B\n");
  EXPECT_THAT(render_resolved(body, false), Not(HasSubstr("blk.0")));
}

}  // namespace
}  // namespace andiron::cli
