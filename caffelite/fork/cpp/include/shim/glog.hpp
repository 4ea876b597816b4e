// glog's interface: warnings and errors go to stderr, information nowhere, and what is fatal throws shim::Failure.
#pragma once
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <unistd.h>

namespace shim {

class Failure : public std::runtime_error {
 public:
  Failure(const char* file, int line, const std::string& text)
      : std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + text) {}
};

// The layer that a Net is making, as it says before each.
inline std::string& layer_made() {
  static std::string name;
  return name;
}

enum Severity { INFO = 0, WARNING = 1, ERROR = 2, FATAL = 3, DFATAL = 3 };

class LogMessage {
 public:
  LogMessage(const char* file, int line, int severity) : file_(file), line_(line), severity_(severity) {}
  ~LogMessage() noexcept(false) {
    if (severity_ == FATAL) throw Failure(file_, line_, text_.str());
    static const std::string creating = "Creating Layer ";
    if (severity_ == INFO && !text_.str().compare(0, creating.size(), creating))
      layer_made() = text_.str().substr(creating.size());
    if (severity_ != INFO) std::cerr << file_ << ':' << line_ << ": " << text_.str() << std::endl;
  }
  std::ostream& stream() { return text_; }

 private:
  const char* file_;
  int line_, severity_;
  std::ostringstream text_;
};

struct Voidify {
  void operator&(std::ostream&) {}
};

template <typename T>
T not_null(const char* file, int line, const char* what, T&& pointer) {
  if (pointer == nullptr) throw Failure(file, line, std::string("Check failed: ") + what + " is not null");
  return std::forward<T>(pointer);
}

template <typename A, typename B>
std::string compared(const char* text, const A& a, const B& b) {
  std::ostringstream out;
  out << "Check failed: " << text << " (" << a << " vs. " << b << ") ";
  return out.str();
}
template <typename T>
auto printable(const T& value, int) -> decltype(std::declval<std::ostream&>() << value, value) { return value; }
template <typename T>
const char* printable(const T&, long) { return "?"; }

}  // namespace shim

#define LOG(severity) ::shim::LogMessage(__FILE__, __LINE__, ::shim::severity).stream()
#define FORK_LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::shim::Voidify() & LOG(severity)
#define LOG_IF(severity, condition) FORK_LOG_IF(severity, condition)
#define LOG_EVERY_N(severity, n) LOG(severity)
#define LOG_FIRST_N(severity, n) LOG(severity)
#define LOG_IF_EVERY_N(severity, condition, n) LOG_IF(severity, condition)
#define DLOG(severity) LOG_IF(severity, false)
#define DLOG_IF(severity, condition) LOG_IF(severity, false)
#define VLOG(level) LOG_IF(INFO, false)
#define VLOG_IS_ON(level) false
#define RAW_LOG(severity, ...) LOG(severity)

#define CHECK(condition) LOG_IF(FATAL, !(condition)) << "Check failed: " #condition " "
#define FORK_CHECK_OP(a, b, op) \
  LOG_IF(FATAL, !((a)op(b))) << ::shim::compared(#a " " #op " " #b, ::shim::printable(a, 0), ::shim::printable(b, 0))
#define CHECK_EQ(a, b) FORK_CHECK_OP(a, b, ==)
#define CHECK_NE(a, b) FORK_CHECK_OP(a, b, !=)
#define CHECK_LT(a, b) FORK_CHECK_OP(a, b, <)
#define CHECK_LE(a, b) FORK_CHECK_OP(a, b, <=)
#define CHECK_GT(a, b) FORK_CHECK_OP(a, b, >)
#define CHECK_GE(a, b) FORK_CHECK_OP(a, b, >=)
#define CHECK_NEAR(a, b, margin) CHECK(std::abs((a) - (b)) <= (margin))
#define CHECK_DOUBLE_EQ(a, b) CHECK_NEAR(a, b, 1e-15)
#define CHECK_STREQ(a, b) CHECK(std::strcmp(a, b) == 0)
#define CHECK_STRNE(a, b) CHECK(std::strcmp(a, b) != 0)
#define CHECK_NOTNULL(pointer) ::shim::not_null(__FILE__, __LINE__, #pointer, pointer)
#define CHECK_NOTNULL_F(pointer) CHECK_NOTNULL(pointer)
#define PCHECK(condition) CHECK(condition)
#define DCHECK(condition) LOG_IF(FATAL, false && (condition))
#define DCHECK_EQ(a, b) DCHECK((a) == (b))
#define DCHECK_NE(a, b) DCHECK((a) != (b))
#define DCHECK_LT(a, b) DCHECK((a) < (b))
#define DCHECK_LE(a, b) DCHECK((a) <= (b))
#define DCHECK_GT(a, b) DCHECK((a) > (b))
#define DCHECK_GE(a, b) DCHECK((a) >= (b))
#define DCHECK_NOTNULL(pointer) (pointer)

namespace google {
inline void InitGoogleLogging(const char*) {}
inline void ShutdownGoogleLogging() {}
inline void InstallFailureSignalHandler() {}
inline void InstallFailureFunction(void (*)()) {}
inline void LogToStderr() {}
inline void SetStderrLogging(int) {}
inline void FlushLogFiles(int) {}
using shim::LogMessage;
using shim::INFO;
using shim::WARNING;
using shim::ERROR;
using shim::FATAL;
}  // namespace google
static bool FLAGS_logtostderr __attribute__((unused)) = true;
static bool FLAGS_alsologtostderr __attribute__((unused)) = true;
static int FLAGS_minloglevel __attribute__((unused)) = 0;
static int FLAGS_v __attribute__((unused)) = 0;
