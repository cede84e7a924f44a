// SPDX-License-Identifier: MIT
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/base/unique_fd.hpp"

namespace andiron::testing {

/// How a program ended. A status of -1 is a signal, or that it did not end in ten seconds.
struct Ended {
  int status = -1;
  std::string out;
  std::string err;
};

/// The real andironctl, as a child. Thread: one.
class Process {
 public:
  enum class Output { pipes, terminal_err, terminal };

  /// `environment` is added to PATH and TZ=UTC0. With `terminal_err`, standard error is a terminal
  /// of 80 columns and standard output a pipe; with `terminal` both are that terminal.
  Process(const std::vector<std::string>& arguments, Output output = Output::pipes,
          const std::vector<std::string>& environment = {}, const std::string& folder = ".");
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number);
  /// Reads until `text` has come on standard output or, on a terminal, on it; false when it ended
  /// first.
  bool wait_for(const std::string& text);
  void close_out() { out_.reset(); }
  Ended wait();

 private:
  bool pump();  // reads what comes next; false when nothing more will

  pid_t pid_ = -1;
  UniqueFd out_;
  UniqueFd err_;
  Ended ended_;
};

}  // namespace andiron::testing
