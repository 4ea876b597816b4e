// gflags' interface: flags have their defaults.
#pragma once
#include <cstdint>
#include <string>
#define FORK_FLAG(type, name, value) type FLAGS_##name = value
#define DEFINE_bool(name, value, help) FORK_FLAG(bool, name, value)
#define DEFINE_int32(name, value, help) FORK_FLAG(std::int32_t, name, value)
#define DEFINE_int64(name, value, help) FORK_FLAG(std::int64_t, name, value)
#define DEFINE_uint64(name, value, help) FORK_FLAG(std::uint64_t, name, value)
#define DEFINE_double(name, value, help) FORK_FLAG(double, name, value)
#define DEFINE_string(name, value, help) FORK_FLAG(std::string, name, value)
#define DECLARE_bool(name) extern bool FLAGS_##name
#define DECLARE_int32(name) extern std::int32_t FLAGS_##name
#define DECLARE_double(name) extern double FLAGS_##name
#define DECLARE_string(name) extern std::string FLAGS_##name
namespace google {
inline unsigned ParseCommandLineFlags(int*, char***, bool) { return 0; }
inline void SetUsageMessage(const std::string&) {}
inline void SetVersionString(const std::string&) {}
inline void ShutDownCommandLineFlags() {}
}  // namespace google
