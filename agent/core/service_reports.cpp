// SPDX-License-Identifier: MIT
#include "agent/core/service_reports.hpp"

#include <fmt/format.h>

#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/base/units.hpp"

namespace andiron::core {

namespace asio = boost::asio;

class ServiceReports::Watchdog {
 public:
  Watchdog(asio::io_context& loop, os::ServiceManager& manager, std::chrono::microseconds patience)
      : manager_(manager), pause_(patience / 2), timer_(loop) {
    beat();
  }

 private:
  void beat() {
    manager_.alive();  // one that finds no room is followed by another in time
    timer_.expires_after(pause_);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) beat();
    });
  }

  os::ServiceManager& manager_;
  const std::chrono::microseconds pause_;
  asio::steady_timer timer_;
};

ServiceReports::ServiceReports(asio::io_context& loop, os::ServiceManager manager)
    : manager_(std::move(manager)) {
  if (const auto patience = manager_.watchdog()) {
    watchdog_ = std::make_unique<Watchdog>(loop, manager_, *patience);
  }
}

ServiceReports::~ServiceReports() = default;

void ServiceReports::ready() { enter(Phase::running); }
void ServiceReports::reload_began() { enter(Phase::reloading); }
void ServiceReports::reload_ended() { enter(Phase::running); }
void ServiceReports::stopping() { enter(Phase::stopping); }

void ServiceReports::enter(Phase phase) {
  if (phase_ == Phase::stopping) return;  // the end of a reload may come after it
  phase_ = phase;
  phase_told_ = tell_phase();
}

bool ServiceReports::tell_phase() {
  switch (phase_) {
    case Phase::starting:
      return true;
    case Phase::running:
      return manager_.ready();
    case Phase::reloading:
      return manager_.reloading();
    case Phase::stopping:
      return manager_.stopping();
  }
  return true;
}

void ServiceReports::tick(const World& world) {
  if (!manager_.present()) return;
  if (!phase_told_) phase_told_ = tell_phase();
  std::string sentence = service_sentence(world);
  if (sentence != sentence_ && manager_.describe(sentence)) sentence_ = std::move(sentence);
}

std::string service_sentence(const World& world) {
  std::size_t warm = 0;
  std::size_t wanted = 0;
  world.models.each([&](const ModelRecord& record) {
    if (!record.wanted) return;
    ++wanted;
    if (record.state() == ModelState::warm) ++warm;
  });
  if (wanted == 0) return "no model is to be kept warm";
  return fmt::format("{} of {} {} warm, {} of {} held", warm, wanted,
                     wanted == 1 ? "model is" : "models are", format_bytes(world.ledger.used()),
                     format_bytes(world.ledger.budget()));
}

}  // namespace andiron::core
